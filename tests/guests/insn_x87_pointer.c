// The x87 instruction pointer that FNSTENV, FXSAVE and FNSAVE store: the program's own code or
// zero, never a translator's.
// build: -O1
#include "check.h"

extern char text_start[] asm("__executable_start"), text_end[] asm("etext");

static void check_pointer(const char *what, unsigned long pointer, unsigned long mask) {
    unsigned long low = (unsigned long)text_start & mask, high = (unsigned long)text_end & mask;
    if (pointer != 0 && !(pointer >= low && pointer < high) && !(low > high))
        check_failed("%s: the pointer is foreign: %#lx not in %#lx-%#lx\n", what, pointer, low, high);
}

int main(void) {
    static unsigned char area[512] __attribute__((aligned(64)));
    static unsigned char environment[28], saved[108];
    unsigned long pointer = 0;
    for (int i = 0; i < 3; i++) {
        asm volatile("fld1; fldpi; faddp; fxsave64 %0; fstp %%st(0)" : "=m"(area));
        memcpy(&pointer, area + 8, 8);
        check_pointer("fxsave64", pointer, ~0ul);
        // After an unmasked pending exception every processor stores it.
        asm volatile("fninit; fld1; fldz; fdivrp; fnstenv %0; fninit" : "=m"(environment));
        unsigned low;
        memcpy(&low, environment + 12, 4);
        check_pointer("fnstenv", low, 0xffffffff);
        asm volatile("fld1; fldpi; faddp; fnsave %0; fninit" : "=m"(saved));
        memcpy(&low, saved + 12, 4);
        check_pointer("fnsave", low, 0xffffffff);
    }
    unsigned short control = 0x37b, status; // divide-by-zero unmasked
    asm volatile("fninit; fldcw %2; fld1; fldz; fdivrp; fxsave64 %0; fnstsw %1; fnclex; fninit" : "=m"(area), "=m"(status) : "m"(control));
    CHECK(status & 0x8000);
    memcpy(&pointer, area + 8, 8);
    CHECK(pointer >= (unsigned long)text_start && pointer < (unsigned long)text_end);
    puts("pointers are our own");
}
