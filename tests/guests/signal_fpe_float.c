// Unmasked floating-point exceptions: SSE faults at the instruction, x87 at the next waiting one.
// build: -lm
#include "check.h"
#include <fenv.h>

double divide_sse(double a, double b);
double divide_x87(double a, double b);
extern char sse_at[], sse_after[], wait_at[], wait_after[];
asm(".pushsection .text\n"
    "divide_sse:\n"
    "sse_at: divsd %xmm1, %xmm0\n"
    "sse_after: ret\n"
    "divide_x87: movsd %xmm0, -8(%rsp)\n movsd %xmm1, -16(%rsp)\n"
    " fldl -8(%rsp)\n fdivl -16(%rsp)\n nop\n"
    "wait_at: fwait\n"
    "wait_after: fstpl -8(%rsp)\n movsd -8(%rsp), %xmm0\n ret\n"
    ".popsection");

static volatile int code;
static long trap;

static void handler(int number, siginfo_t *info, void *context) {
    CHECK_EQ(number, SIGFPE);
    ucontext_t *uc = context;
    greg_t *registers = uc->uc_mcontext.gregs;
    code = info->si_code;
    trap = registers[REG_TRAPNO];
    CHECK_EQ((long)info->si_addr, registers[REG_RIP]);
    if (registers[REG_RIP] == (greg_t)sse_at) {
        registers[REG_RIP] = (greg_t)sse_after;
    } else {
        CHECK_EQ(registers[REG_RIP], (long)wait_at);
        uc->uc_mcontext.fpregs->cwd |= 0x3f;
        uc->uc_mcontext.fpregs->swd &= ~0x80ff;
        registers[REG_RIP] = (greg_t)wait_after;
    }
}

int main(void) {
    on_signal(SIGFPE, handler, 0);
    printf("masked: %f\n", divide_sse(1, 0));
    feclearexcept(FE_ALL_EXCEPT);
    feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
    printf("divide by zero: %f, ", divide_sse(1, 0));
    printf("code %d, trap %ld\n", code, trap);
    CHECK_EQ(code, FPE_FLTDIV);
    CHECK_EQ(trap, 19);
    feclearexcept(FE_ALL_EXCEPT);
    printf("invalid: %f, ", divide_sse(0, 0));
    printf("code %d, trap %ld\n", code, trap);
    CHECK_EQ(code, FPE_FLTINV);
    feclearexcept(FE_ALL_EXCEPT);
    divide_sse(1e300, 1e-300);
    printf("overflow: code %d\n", code);
    CHECK_EQ(code, FPE_FLTOVF);
    feclearexcept(FE_ALL_EXCEPT);
    double result = divide_x87(1, 0);
    CHECK_EQ(code, FPE_FLTDIV);
    CHECK_EQ(trap, 16);
    printf("x87: code %d, trap %ld, popped %f\n", code, trap, result);
}
