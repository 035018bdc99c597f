// Threads count atomically in pages in which others execute code that has just been written there, as
// in a just-in-time compiler's heap: no increment is lost and none faults.
// build: -pthread
#include "check.h"
#include <pthread.h>

#define PAGES 4
#define SLOTS 30
#define ROUNDS 500
static char *area;

// Once for each instruction that compilers make of it.
static void increment(int page) {
    long *counter = (long *)(area + 4096 * page), old;
    __atomic_fetch_add(&counter[0], 1, __ATOMIC_SEQ_CST);
    old = __atomic_fetch_add(&counter[1], 1, __ATOMIC_SEQ_CST);
    CHECK(old >= 0);
    old = counter[2];
    while (!__atomic_compare_exchange_n(&counter[2], &old, old + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
    __atomic_exchange_n(&counter[3], old, __ATOMIC_SEQ_CST);
}

// Writes `mov $value, %eax; ret` into a slot of its own, in any page, and calls it.
static void *compile(void *argument) {
    long self = (long)argument;
    unsigned seed = self + 1;
    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * 1103515245 + 12345;
        char *code = area + 4096 * (seed >> 16) % (4096 * PAGES) + 256 + 128 * (i % SLOTS) + 32 * self;
        int value = seed >> 3;
        code[0] = (char)0xb8, memcpy(code + 1, &value, 4), code[5] = (char)0xc3;
        CHECK_EQ(((int (*)(void))code)(), value);
        increment(i % PAGES);
    }
    return NULL;
}

static void *count(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS * 10; i++) increment(i % PAGES);
    return NULL;
}

static void share_pages(void) {
    area = mmap(NULL, 4096 * PAGES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED);
    pthread_t threads[6];
    for (long i = 0; i < 6; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, i < 4 ? compile : count, (void *)i), 0);
    for (int i = 0; i < 6; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
    for (int kind = 0; kind < 3; kind++) {
        long sum = 0;
        for (int i = 0; i < PAGES; i++) sum += ((long *)(area + 4096 * i))[kind];
        CHECK_EQ(sum, 4 * ROUNDS + 2 * ROUNDS * 10);
    }
    CHECK_EQ(munmap(area, 4096 * PAGES), 0);
}

int main(void) {
    // Often, because an engine may soon give up to watch a page.
    for (int i = 0; i < 30; i++) share_pages();
    puts("shared");
}
