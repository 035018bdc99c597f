// Single-stepping as a tracing program does it: a handler sets the trap flag in its context and
// counts instructions, through a system call, until it clears the flag again.
#include "check.h"

long traced(long pid);
extern char first[], last[];
asm(".pushsection .text\n"
    "traced: ud2\n"
    "first: mov $39, %eax\n"
    " syscall\n"
    " nop\n"
    " mov $10, %ecx\n"
    "1: add %rcx, %rdx\n"
    " loop 1b\n"
    " mov $39, %eax\n"
    " syscall\n"
    " mov %rax, %rdx\n"
    "last: ud2\n"
    " ret\n"
    ".popsection");

static volatile int count;
static volatile long pcs[100];

static void handler(int number, siginfo_t *info, void *context) {
    (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (number == SIGILL) {
        if (registers[REG_RIP] == (greg_t)last) registers[REG_EFL] &= ~0x100;
        else registers[REG_EFL] |= 0x100;
        registers[REG_RIP] += 2;
        return;
    }
    CHECK(registers[REG_EFL] & 0x100);
    CHECK(count < 100);
    pcs[count++] = registers[REG_RIP] - (greg_t)first;
}

int main(void) {
    on_signal(SIGILL, handler, 0);
    on_signal(SIGTRAP, handler, 0);
    CHECK_EQ(traced(0), getpid());
    printf("%d traps:", count);
    for (int i = 0; i < count; i++) printf(" %ld", pcs[i]);
    puts("");
}
