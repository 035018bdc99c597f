// A handler starts with the default rounding and x87 state, whatever the program had set, and
// the program's own is back after the handler.
// build: -lm
#include "check.h"
#include <fenv.h>
#include <xmmintrin.h>

static volatile unsigned mxcsr_inside;
static volatile unsigned short control_inside, status_inside;

static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    mxcsr_inside = _mm_getcsr();
    asm volatile("fnstcw %0" : "=m"(control_inside));
    asm volatile("fnstsw %0" : "=m"(status_inside));
    fesetround(FE_TOWARDZERO);
    asm volatile("fldpi; fldpi; fldpi");
}

int main(void) {
    on_signal(SIGUSR1, handler, 0);
    fesetround(FE_UPWARD);
    _mm_setcsr(_mm_getcsr() | 0x8040);
    unsigned before = _mm_getcsr();
    double top;
    asm volatile("fld1");
    CHECK_EQ(kill(getpid(), SIGUSR1), 0);
    asm volatile("fstpl %0" : "=m"(top));
    CHECK_EQ(_mm_getcsr() & ~0x3f, before & ~0x3f);
    CHECK_EQ(fegetround(), FE_UPWARD);
    CHECK(top == 1.0);
    unsigned short status;
    asm volatile("fnstsw %0" : "=m"(status));
    CHECK_EQ(status >> 11 & 7, 0);
    printf("inside: mxcsr %#x, control %#x, status %#x\n", mxcsr_inside, control_inside, status_inside);
    CHECK_EQ(mxcsr_inside, 0x1f80);
    CHECK_EQ(control_inside, 0x37f);
    CHECK_EQ(status_inside, 0);
}
