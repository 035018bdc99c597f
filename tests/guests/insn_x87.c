// x87: arithmetic, constants, transcendentals, the register stack, comparisons, conversions, BCD,
// precision control, saving and restoring the environment.
#include "check.h"

static void show(const char *name, long double value) {
    unsigned char bytes[10];
    memcpy(bytes, &value, 10);
    printf("%-10s", name);
    for (int i = 9; i >= 0; i--) printf("%02x", bytes[i]);
    puts("");
}
#define CONSTANT(name)                             \
    do {                                           \
        long double value;                         \
        asm volatile(#name : "=t"(value));         \
        show(#name, value);                        \
    } while (0)
#define UNARY(name, argument)                                        \
    do {                                                             \
        long double value;                                           \
        asm volatile(#name : "=t"(value) : "0"((long double)argument)); \
        show(#name, value);                                          \
    } while (0)

int main(void) {
    CONSTANT(fld1); CONSTANT(fldz); CONSTANT(fldpi); CONSTANT(fldl2e); CONSTANT(fldl2t); CONSTANT(fldlg2); CONSTANT(fldln2);
    UNARY(fsqrt, 2.0); UNARY(fsin, 1.0); UNARY(fcos, 1.0); UNARY(fabs, -3.5); UNARY(fchs, 3.5);
    UNARY(frndint, 2.5); UNARY(f2xm1, 0.5);
    long double a = 10.25L, b = 3.0L, result;
    asm volatile("fpatan" : "=t"(result) : "0"(b), "u"(a) : "st(1)");
    show("fpatan", result);
    asm volatile("fyl2x" : "=t"(result) : "0"(a), "u"(b) : "st(1)");
    show("fyl2x", result);
    asm volatile("fprem" : "=t"(result) : "0"(a), "u"(b));
    show("fprem", result);
    asm volatile("fscale" : "=t"(result) : "0"(a), "u"(b));
    show("fscale", result);
    show("sum", a + b); show("quotient", a / b);

    double memory[8];
    asm volatile("fld1; fldpi; fldz; fldl2e; fxch %%st(2); fstpl 0(%0); fstpl 8(%0); fstpl 16(%0); fstpl 24(%0)" ::"r"(memory) : "memory");
    for (int i = 0; i < 4; i++) printf("%.17g ", memory[i]);
    puts("");
    unsigned short status;
    asm volatile("fldpi; fld1; fcompp; fnstsw %0" : "=a"(status));
    printf("compare %04x\n", status & 0x4500);
    unsigned char below;
    asm volatile("fldpi; fld1; fcomip %%st(1), %%st; setb %0; fstp %%st(0)" : "=r"(below));
    printf("1 < pi %d\n", below);
    long integer = 0;
    short small = 0;
    asm volatile("fldpi; fistpq %0; fldpi; fisttps %1" : "=m"(integer), "=m"(small));
    printf("integers %ld %d\n", integer, small);
    unsigned char bcd[10];
    asm volatile("fildq %1; fbstp %0" : "=m"(bcd) : "m"((long){-1234567890123456}));
    for (int i = 9; i >= 0; i--) printf("%02x", bcd[i]);
    puts("");
    unsigned short old, control;
    asm volatile("fnstcw %0" : "=m"(old));
    for (int precision = 0; precision < 4; precision++)
        for (int rounding = 0; rounding < 4; rounding++) {
            control = (unsigned short)((old & ~0xf00) | precision << 8 | rounding << 10);
            asm volatile("fldcw %0" ::"m"(control));
            asm volatile("fdivp" : "=t"(result) : "0"(b), "u"(a) : "st(1)");
            asm volatile("fldcw %0" ::"m"(old));
            show("divided", result);
        }
    unsigned char saved[108];
    asm volatile("fldpi; fld1; fnsave %0; fldz; fstp %%st(0); frstor %0; fstpl %1; fstpl %2" : "+m"(saved), "=m"(memory[0]), "=m"(memory[1]));
    printf("restored %.6f %.6f\n", memory[0], memory[1]);
    // The stack's eight registers overflow into an indefinite value.
    asm volatile("fninit; fld1; fld1; fld1; fld1; fld1; fld1; fld1; fld1; fld1; fnstsw %0; fninit" : "=a"(status));
    printf("overflow status %04x\n", status);
}
