// Privileged instructions: a general protection fault at the instruction, without an address.
#include "check.h"

extern char start[], finish[];
int privileged(void);
asm(".pushsection .text\n"
    ".p2align 3\n"
    "privileged: xor %eax, %eax\n .p2align 3,0x90\n"
    "start: hlt\n .p2align 3,0x90\n"
    " cli\n .p2align 3,0x90\n"
    " in $0x60, %al\n .p2align 3,0x90\n"
    " out %al, %dx\n .p2align 3,0x90\n"
    " mov %cr0, %rax\n .p2align 3,0x90\n"
    " mov %db0, %rax\n .p2align 3,0x90\n"
    " rdmsr\n .p2align 3,0x90\n"
    " invd\n .p2align 3,0x90\n"
    " int $0x21\n .p2align 3,0x90\n"
    " mov $1, %eax\n"
    "finish: ret\n"
    ".popsection");

static volatile int seen;

static void handler(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    CHECK_EQ(number, SIGSEGV);
    CHECK_EQ(info->si_code, SI_KERNEL);
    CHECK_EQ((long)info->si_addr, 0);
    CHECK_EQ(registers[REG_TRAPNO], 13);
    // A software interrupt names its gate; everything else has no selector to blame.
    CHECK_EQ(registers[REG_ERR], seen == 8 ? 0x21 * 8 + 2 : 0);
    CHECK(registers[REG_RIP] >= (greg_t)start && registers[REG_RIP] < (greg_t)finish);
    CHECK_EQ(registers[REG_RIP] - (greg_t)start, seen * 8);
    registers[REG_RIP] += 8;
    seen++;
}

int main(void) {
    on_signal(SIGSEGV, handler, 0);
    CHECK_EQ(privileged(), 1);
    printf("%d privileged instructions refused\n", seen);
    CHECK_EQ(seen, 9);
}
