// A signal handler sees the flags as the interrupted code left them, also where that code overwrites them next.
#include "check.h"
#include <sys/time.h>

#define ARITHMETIC 0x8d5
#define ZERO_AND_PARITY 0x44
enum { SIGNALS = 400 };

static volatile int flag, count;
extern char loop_start[], loop_end[];

static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t pc = registers[REG_RIP];
    if (pc >= (uintptr_t)loop_start && pc < (uintptr_t)loop_end) {
        CHECK_EQ(registers[REG_EFL] & ARITHMETIC, ZERO_AND_PARITY);
        if (++count == SIGNALS) flag = 1;
    }
}

int main(void) {
    on_signal(SIGALRM, handler, 0);
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
    asm volatile("xor %%eax, %%eax\n"
                 "loop_start: mov %0, %%eax\n"
                 "test %%eax, %%eax\n"
                 "je loop_start\n"
                 "loop_end:\n"
                 : : "m"(flag) : "rax", "cc", "memory");
    printf("%d signals\n", count);
}
