// The trap flag: set by popf, it traps after each following instruction with the right pc,
// through jumps, calls, returns and repeated strings, until popf clears it.
#include "check.h"

long stepped(void);
extern char base[];
asm(".pushsection .text\n"
    "stepped: push %rbx\n"
    " lea buffer(%rip), %rsi\n lea buffer+32(%rip), %rdi\n mov $3, %ecx\n xor %ebx, %ebx\n"
    "base: pushfq\n orq $0x100, (%rsp)\n popfq\n"
    " nop\n"
    " add $1, %ebx\n"
    " jmp 1f\n"
    " ud2\n"
    "1: jz 2f\n"
    " call 3f\n"
    " rep movsb\n"
    "2: push %rbx\n"
    " pop %rax\n"
    " lea 4f(%rip), %rdx\n"
    " jmp *%rdx\n"
    " ud2\n"
    "4: pushfq\n"
    " mov (%rsp), %rax\n"
    " andq $~0x100, (%rsp)\n"
    " popfq\n"
    " nop\n nop\n"
    " pop %rbx\n ret\n"
    "3: add $1, %ebx\n"
    " ret\n"
    ".popsection\n"
    ".pushsection .bss\n .balign 64\n"
    "buffer: .zero 64\n .popsection");

static volatile int count;
static volatile long pcs[100];

static void handler(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    CHECK_EQ(number, SIGTRAP);
    CHECK_EQ(info->si_code, TRAP_TRACE);
    CHECK_EQ((long)info->si_addr, registers[REG_RIP]);
    CHECK_EQ(registers[REG_TRAPNO], 1);
    unsigned long flags;
    asm volatile("pushfq; pop %0" : "=r"(flags));
    CHECK_EQ(flags & 0x100, 0);
    CHECK(count < 100);
    pcs[count++] = registers[REG_RIP] - (greg_t)base;
}

int main(void) {
    on_signal(SIGTRAP, handler, 0);
    for (int round = 0; round < 3; round++) {
        count = 0;
        long flags = stepped();
        printf("%d traps:", count);
        for (int i = 0; i < count; i++) printf(" %ld", pcs[i]);
        printf(", pushed TF %ld\n", flags >> 8 & 1);
    }
    unsigned long flags;
    asm volatile("pushfq; pop %0" : "=r"(flags));
    CHECK_EQ(flags & 0x100, 0);
}
