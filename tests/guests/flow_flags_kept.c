// Flags survive transfers: set before a ret, an indirect jump, an indirect call, a direct call, a
// jump and a conditional jump, and looked at on the other side.
#include "check.h"

unsigned long keep(unsigned long flags, long which);
asm(".pushsection .text\n"
    "keep: lea jumps(%rip), %rax\n movslq (%rax,%rsi,4), %rdx\n add %rax, %rdx\n push %rdi\n jmp *%rdx\n"
    "f0: lea 1f(%rip), %rax\n popfq\n jmp *%rax\n ud2\n"
    "f1: lea landing(%rip), %rax\n mov %rax, slot(%rip)\n popfq\n jmp *slot(%rip)\n ud2\n"
    "f2: lea called(%rip), %rax\n popfq\n call *%rax\n jmp 1f\n"
    "f3: popfq\n call called\n jmp 1f\n"
    "f4: lea 1f(%rip), %rax\n mov (%rsp), %rdx\n mov %rax, (%rsp)\n push %rdx\n popfq\n ret\n"
    "f5: popfq\n jc 2f\n jz 1f\n js 1f\n jmp 1f\n2: jz 1f\n jmp 1f\n"
    "f6: mov $1, %ecx\n popfq\n3: loop 3b\n jrcxz 1f\n ud2\n"
    "f7: popfq\n call called\n call called\n call called\n jmp 1f\n"
    "called: mov $5, %ecx\n lea 8(%rcx), %rcx\n ret\n"
    "landing: jmp 1f\n"
    "1: pushfq\n pop %rax\n ret\n"
    ".p2align 2\n jumps: .long f0-jumps, f1-jumps, f2-jumps, f3-jumps, f4-jumps, f5-jumps, f6-jumps, f7-jumps\n"
    ".popsection\n"
    ".pushsection .bss\n .balign 8\n slot: .zero 8\n .popsection");

int main(void) {
    const unsigned long bits[] = {1, 4, 0x10, 0x40, 0x80, 0x800};
    for (int round = 0; round < 20; round++)
        for (unsigned subset = 0; subset < 64; subset++) {
            unsigned long flags = 0x202;
            for (int i = 0; i < 6; i++)
                if (subset >> i & 1) flags |= bits[i];
            for (long which = 0; which < 8; which++) {
                unsigned long after = keep(flags, which);
                if ((after ^ flags) & 0x8d5) check_failed("way %ld: %#lx became %#lx\n", which, flags, after);
            }
        }
    puts("64 combinations through 8 ways");
}
