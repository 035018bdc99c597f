// The x87 instruction pointer survives where a replay starts in the middle: stored again, twice, long after the instruction. A
// pending exception makes every processor keep it in images of the state.
// build: -O1
// record: --interval 1M
#include "check.h"

static unsigned char environment[28], area[512] __attribute__((aligned(64)));

// Storing an environment masks the exception until the control word is back: if the kernel takes the processor away in that very moment,
// some processors forget the pointer.
static void check(uintptr_t pointer, uintptr_t expected) {
    static int is_lost;
    is_lost |= pointer == 0;
    if (!is_lost) CHECK_EQ(pointer, expected);
}

int main(void) {
    extern char divides[];
    unsigned short control = 0x37b, status; // divide-by-zero unmasked
    asm volatile("fninit; fldcw %0; fld1; fldz\n"
                 "divides: fdivrp\n"
                 : : "m"(control));
    for (int round = 0; round < 20; round++) {
        for (int again = 0; again < 2; again++) {
            // It masks exceptions, which the control word undoes.
            asm volatile("fnstenv %0; fldcw %1" : "=m"(environment) : "m"(control));
            unsigned pointer;
            memcpy(&pointer, environment + 12, 4);
            check(pointer, (unsigned)(uintptr_t)divides);
            asm volatile("fxsave64 %0" : "=m"(area));
            uintptr_t whole;
            memcpy(&whole, area + 8, 8);
            check(whole, (uintptr_t)divides);
        }
        for (volatile int i = 0; i < 100000; i++) {}
    }
    asm volatile("fnstsw %0; fnclex; fninit" : "=m"(status));
    CHECK(status & 0x8000);
    puts("still there");
}
