// Breakpoint instructions: SIGTRAP with the pc after them; execution goes on by itself.
#include "check.h"

long breakpoints(void);
extern char after_int3[], after_int_3[];
asm(".pushsection .text\n"
    "breakpoints: mov $1, %eax\n"
    " int3\n"
    "after_int3: add $10, %eax\n"
    " .byte 0xcd, 3\n"
    "after_int_3: add $100, %eax\n"
    " ret\n"
    ".popsection");

static volatile int traps;

static void handler(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    CHECK_EQ(number, SIGTRAP);
    CHECK_EQ(info->si_code, SI_KERNEL);
    CHECK_EQ(registers[REG_TRAPNO], 3);
    CHECK_EQ(registers[REG_ERR], 0);
    CHECK_EQ(registers[REG_RIP], (long)(traps == 0 ? after_int3 : after_int_3));
    CHECK_EQ(registers[REG_RAX], traps == 0 ? 1 : 11);
    traps++;
}

int main(void) {
    on_signal(SIGTRAP, handler, 0);
    printf("result %ld\n", breakpoints());
    CHECK_EQ(traps, 2);
}
