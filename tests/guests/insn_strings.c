// String instructions: every width, both directions, zero counts, overlaps, early ends, 32-bit
// counts and addresses, and a segment prefix on the source.
#include "check.h"

static unsigned char from[4096], to[4096];

int main(void) {
    uint64_t hash = 0;
    for (int i = 0; i < 4096; i++) from[i] = (unsigned char)(i * 7 + i / 256);
#define COPY(instruction, step, start_from, start_to, times, direction)                                              \
    do {                                                                                                             \
        void *s = (start_from), *d = (start_to);                                                                     \
        long c = (times);                                                                                            \
        asm volatile(direction "; rep " instruction "; cld" : "+S"(s), "+D"(d), "+c"(c)::"memory", "cc");            \
        CHECK_EQ(c, 0);                                                                                              \
        CHECK_EQ((char *)s - (char *)(start_from), (step) * (times));                                                \
        CHECK_EQ((char *)d - (char *)(start_to), (step) * (times));                                                  \
        for (int i = 0; i < 4096; i++) hash = hash * 31 + to[i];                                                     \
    } while (0)
    COPY("movsb", 1, from, to, 1000, "cld");
    COPY("movsw", 2, from + 1, to + 3, 500, "cld");
    COPY("movsl", 4, from + 5, to + 2, 333, "cld");
    COPY("movsq", 8, from + 7, to + 11, 200, "cld");
    COPY("movsb", -1, from + 4000, to + 3000, 1000, "std");
    COPY("movsq", -8, from + 4000, to + 3500, 100, "std");
    COPY("movsb", 1, from, to, 0, "cld");
    COPY("movsb", 1, to, to + 1, 1000, "cld");   // a run of one byte
    COPY("movsb", -1, to + 2000, to + 2005, 900, "std");
    COPY("movsq", 8, to, to + 3, 100, "cld");
    printf("movs %016lx\n", hash);
    for (int width = 0; width < 4; width++) {
        void *d = to + 100 * width;
        long c = 11;
        switch (width) {
        case 0: asm volatile("rep stosb" : "+D"(d), "+c"(c) : "a"(0x1122334455667788) : "memory"); break;
        case 1: asm volatile("rep stosw" : "+D"(d), "+c"(c) : "a"(0x1122334455667788) : "memory"); break;
        case 2: asm volatile("rep stosl" : "+D"(d), "+c"(c) : "a"(0x1122334455667788) : "memory"); break;
        default: asm volatile("rep stosq" : "+D"(d), "+c"(c) : "a"(0x1122334455667788) : "memory"); break;
        }
        CHECK_EQ((char *)d - (char *)(to + 100 * width), 11 << width);
    }
    for (int i = 0; i < 4096; i++) hash = hash * 31 + to[i];
    printf("stos %016lx\n", hash);

    const char *text = "find the needle here";
    const void *d = text;
    long c = 21;
    unsigned char zero;
    asm volatile("repne scasb; setz %2" : "+D"(d), "+c"(c), "=r"(zero) : "a"('n') : "cc");
    printf("scas %ld %ld %d\n", (const char *)d - text, c, zero);
    d = text, c = 5;
    asm volatile("repne scasb; setz %2" : "+D"(d), "+c"(c), "=r"(zero) : "a"('z') : "cc");
    printf("scas %ld %ld %d\n", (const char *)d - text, c, zero);
    memcpy(to, from, 100);
    to[37] ^= 1;
    const void *s = from;
    d = to, c = 100;
    unsigned char below;
    asm volatile("repe cmpsb; setz %3; setb %4" : "+S"(s), "+D"(d), "+c"(c), "=r"(zero), "=r"(below)::"cc");
    printf("cmps %ld %ld %d %d\n", (const unsigned char *)s - from, c, zero, below);
    // A zero count leaves the flags alone.
    s = from, d = to, c = 0;
    asm volatile("cmp %%eax, %%eax; repe cmpsb; setz %3" : "+S"(s), "+D"(d), "+c"(c), "=r"(zero)::"cc");
    CHECK_EQ(zero, 1);
    s = from + 99, d = to + 99, c = 100;
    asm volatile("std; repe cmpsb; cld" : "+S"(s), "+D"(d), "+c"(c)::"cc");
    printf("backwards %ld %ld\n", (const unsigned char *)s - from, c);
    uint64_t a = 0, sum = 0;
    s = from, c = 20;
    asm volatile("1: lodsw; add %%rax, %2; loop 1b" : "+S"(s), "+c"(c), "+r"(sum), "+a"(a)::"cc", "memory");
    printf("lods %lu %ld\n", sum, (const unsigned char *)s - from);
    // 32-bit addresses and counts: the upper halves are ignored and cleared.
    char *low = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    CHECK(low != MAP_FAILED);
    memcpy(low, from, 100);
    uint64_t wide_s = (uint64_t)low | 0x7700000000, wide_d = (uint64_t)(low + 4096) | 0x6600000000, wide_c = 0x5500000064;
    asm volatile("addr32 rep movsb" : "+S"(wide_s), "+D"(wide_d), "+c"(wide_c)::"memory");
    CHECK_EQ(wide_s, (uint64_t)low + 100);
    CHECK_EQ(wide_d, (uint64_t)low + 4196);
    CHECK_EQ(wide_c, 0);
    CHECK_EQ(memcmp(low + 4096, from, 100), 0);
    // The source may be relative to FS; the thread's own block is there.
    uint64_t self = 0;
    void *zero_offset = 0, *out = &self;
    asm volatile("movsq %%fs:(%%rsi), %%es:(%%rdi)" : "+S"(zero_offset), "+D"(out)::"memory");
    uint64_t expected;
    asm("mov %%fs:0, %0" : "=r"(expected));
    CHECK_EQ(self, expected);
    puts("32-bit and FS forms");
}
