// Reads and updates a file mapping that another process keeps writing. The first argument says how, the
// second is the file, the third how often.
// build: -mavx
#include "show.h"
#include <fcntl.h>
#include <immintrin.h>

// The writer's view is in tests/recording/outside.rs.
struct shared {
    volatile uint64_t sequence;  // the writer counts up
    char apart[4088];
    uint64_t counter;  // both count up
    char apart_too[4088];
    uint64_t swapped;  // both count up, with compare-and-swap
    char apart_again[4088];
    volatile unsigned char block[128];  // the writer fills all of it with the same byte
};

static void watch(struct shared *shared, int count) {
    uint64_t *seen = calloc(count, sizeof *seen), last = 0;
    for (int i = 0; i < count; i++) {
        while ((seen[i] = shared->sequence) == last) {}
        last = seen[i];
    }
    printf("at %p\n", (void *)&shared->sequence);
    for (int i = 0; i < count; i++) printf("saw %lu\n", seen[i]);
}

static void count(struct shared *shared, int count) {
    uint64_t *seen = calloc(count, sizeof *seen);
    for (int i = 0; i < count; i++) {
        seen[i] = __atomic_fetch_add(&shared->counter, 1, __ATOMIC_SEQ_CST);
        uint64_t old = __atomic_load_n(&shared->swapped, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(&shared->swapped, &old, old + 1, 0, __ATOMIC_SEQ_CST,
                                            __ATOMIC_RELAXED)) {}
        for (volatile int pause = 0; pause < 20; pause++) {}
    }
    printf("at %p\n", (void *)&shared->counter);
    for (int i = 0; i < count; i++) printf("saw %lu\n", seen[i]);
}

// One instruction loads all that is shown: what several load may change in between.
static void copy(struct shared *shared, int count) {
    unsigned char *copied = aligned_alloc(64, 128);
    const volatile unsigned char *block = shared->block;
    unsigned char last = 0;
    for (int i = 0; i < count; i++) {
        while (block[i % 128] == last) {}
        last = block[i % 128];
        const void *from = (const void *)block;
        void *to = copied;
        long length = 128;
        const volatile unsigned char *part = block + i % 96;
        switch (i % 6) {
        case 0:
            __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(length) : : "memory");
            show_loaded("rep movsb", block, copied, 128);
            break;
        case 1:
            length = 16;
            __asm__ volatile("rep movsq" : "+S"(from), "+D"(to), "+c"(length) : : "memory");
            show_loaded("rep movsq", block, copied, 128);
            break;
        case 2:
            __asm__ volatile("vmovdqu (%0), %%ymm0\n\tvmovdqu %%ymm0, (%1)"
                             :
                             : "r"(part), "r"(copied)
                             : "xmm0", "memory");
            show_loaded("vmovdqu", part, copied, 32);
            break;
        case 3:
            __asm__ volatile("movups (%0), %%xmm0\n\tmovups %%xmm0, (%1)"
                             :
                             : "r"(part), "r"(copied)
                             : "xmm0", "memory");
            show_loaded("movups", part, copied, 16);
            break;
        case 4:
            __asm__ volatile("movq (%0), %%rax\n\tmovq %%rax, (%1)"
                             :
                             : "r"(part), "r"(copied)
                             : "rax", "memory");
            show_loaded("movq", part, copied, 8);
            break;
        case 5:
            // Compares memory with what was there just now: what it finds is in the flags alone.
            from = (const void *)part;
            __asm__ volatile("cmpsb" : "+S"(from), "+D"(to) : : "memory", "cc");
            copied[0] = *part;
            show_loaded("one byte", part, copied, 1);
            break;
        }
    }
}

int main(int argc, char **argv) {
    CHECK_EQ(argc, 4);
    int file = open(argv[2], O_RDWR);
    CHECK(file >= 0);
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(shared != MAP_FAILED);
    int times = atoi(argv[3]);
    if (!strcmp(argv[1], "watch")) watch(shared, times);
    if (!strcmp(argv[1], "count")) count(shared, times);
    if (!strcmp(argv[1], "copy")) copy(shared, times);
}
