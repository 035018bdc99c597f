// CPUID: the same answer every time and on every thread, in agreement with what works; features
// that a translator hides must be consistently hidden.
// build: -pthread
#include "check.h"
#include <cpuid.h>
#include <pthread.h>
#include <sched.h>

static unsigned first[64][4];

static void collect(unsigned values[64][4]) {
    int count = 0;
    for (unsigned leaf = 0; leaf <= 13; leaf++) {
        unsigned *v = values[count++];
        __cpuid_count(leaf, 0, v[0], v[1], v[2], v[3]);
        // The initial APIC id and the topology differ between processors.
        if (leaf == 1) v[1] &= 0x00ffff00;
        if (leaf == 11 || leaf == 4) memset(v, 0, 16);
    }
    for (unsigned leaf = 0x80000000; leaf <= 0x80000008; leaf++) {
        unsigned *v = values[count++];
        __cpuid(leaf, v[0], v[1], v[2], v[3]);
    }
}

static void *again(void *unused) {
    (void)unused;
    for (int i = 0; i < 50; i++) {
        unsigned values[64][4];
        memset(values, 0, sizeof values);
        collect(values);
        CHECK_EQ(memcmp(values, first, sizeof first), 0);
    }
    return NULL;
}

int main(void) {
    collect(first);
    again(NULL);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) CHECK_EQ(pthread_create(&threads[i], NULL, again, NULL), 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    // rax, rbx, rcx and rdx are written whole: the upper halves become zero.
    unsigned long a = 0xffffffff00000000, b = -1, c = 0, d = -1;
    asm volatile("cpuid" : "+a"(a), "+b"(b), "+c"(c), "+d"(d));
    CHECK((a | b | c | d) >> 32 == 0);
    char vendor[13] = "";
    memcpy(vendor, &b, 4), memcpy(vendor + 4, &d, 4), memcpy(vendor + 8, &c, 4);
    CHECK(strlen(vendor) == 12);
    // What is promised works.
    unsigned eax, ebx, ecx, edx;
    __cpuid(1, eax, ebx, ecx, edx);
    CHECK(edx & 1 << 25 && edx & 1 << 26);
    if (ecx & 1 << 27) {
        unsigned low, high;
        asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        CHECK_EQ(low & 3, 3);
    }
    __cpuid_count(7, 0, eax, ebx, ecx, edx);
    if (ebx & 1 << 11) {
        // Transactions are promised: one that does nothing must end somehow.
        unsigned status = ~0u;
        asm volatile("1: xbegin 2f\n xend\n2:" : "+a"(status)::"memory");
    }
    puts("consistent");
}
