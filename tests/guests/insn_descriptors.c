// LSL of the segment whose limit is the processor's number, on one processor after the other, and what else tells about
// segments: LAR, VERR, VERW, SGDT, SIDT, SLDT, STR, SMSW.
// build: -O1
#include "check.h"
#include <sched.h>

enum { CODE = 0x33, DATA = 0x2b, PROCESSOR = 0x7b, NOTHING = 0x1fb };

static unsigned limits[64];
static struct __attribute__((packed)) { unsigned short limit; unsigned long address; } tables[2];

static int limit_of(unsigned selector, unsigned *limit) {
    char found;
    asm volatile("lsl %2, %1; setz %0" : "=r"(found), "+r"(*limit) : "r"(selector) : "cc");
    return found;
}

static int rights_of(const unsigned short *selector, unsigned long *rights) {
    char found;
    asm volatile("lar %2, %1; setz %0" : "=r"(found), "+r"(*rights) : "m"(*selector) : "cc");
    return found;
}

int main(void) {
    cpu_set_t all, one;
    CHECK_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    int visited = 0;
    for (int round = 0; round < 2; round++) {
        for (int cpu = 0; cpu < 64; cpu++) {
            if (!CPU_ISSET(cpu, &all)) continue;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
            unsigned limit = -1;
            if (!limit_of(PROCESSOR, &limit)) continue;
            limits[cpu] = limit;
            CHECK_EQ(limits[cpu] & 0xfff, cpu);
            visited++;
        }
    }
    CHECK(visited == 0 || visited == 2 * (CPU_COUNT(&all) < 64 ? CPU_COUNT(&all) : 64));

    unsigned limit = 0x12345678;
    CHECK(!limit_of(NOTHING, &limit) && limit == 0x12345678);
    CHECK(limit_of(CODE, &limit) && limit == 0xffffffff);
    unsigned short wide = 0xabcd;
    asm("lsl %1, %0" : "+r"(wide) : "r"((unsigned short)DATA) : "cc");
    CHECK_EQ(wide, 0xffff);

    unsigned short selector = CODE;
    unsigned long rights = 0;
    CHECK(rights_of(&selector, &rights));
    CHECK_EQ(rights >> 8 & 0xfe, 0xfa);
    selector = NOTHING;
    CHECK(!rights_of(&selector, &rights));

    char readable, writable;
    asm("verr %w2; setz %0; verw %w2; setz %1" : "=&r"(readable), "=&r"(writable) : "r"(CODE) : "cc");
    CHECK(readable && !writable);
    asm("verr %w2; setz %0; verw %w2; setz %1" : "=&r"(readable), "=&r"(writable) : "r"(DATA) : "cc");
    CHECK(readable && writable);

    // The machine's or, where it is hidden, the kernel's answer: whatever it is, it is stored.
    asm volatile("sgdt %0" : "=m"(tables[0]));
    asm volatile("sidt %0" : "=m"(tables[1]));
    CHECK(tables[0].address >> 63 == 1 && tables[1].address >> 63 == 1);
    unsigned short local = 1, task = 1, status = 0;
    unsigned long local_wide = -1, status_wide = 0;
    asm volatile("sldt %0" : "=m"(local));
    asm volatile("sldt %0" : "=r"(local_wide));
    CHECK_EQ(local_wide & 0xffff, local);
    asm volatile("str %0" : "=m"(task));
    asm volatile("smsw %0" : "=m"(status));
    asm volatile("smsw %0" : "=r"(status_wide));
    CHECK(status & 1);
    CHECK_EQ(status_wide & 0xffff, status);
    puts("segments described");
}
