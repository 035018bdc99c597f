// Indirect calls and jumps through every kind of operand: registers, memory with base, index and
// scale, the stack pointer, rip-relative, segment-prefixed, and operands that the call itself
// changes.
#include "check.h"

long through(long which);
asm(".pushsection .text\n"
    "through: cmp $10, %edi\n ja 99f\n lea table(%rip), %rax\n movslq (%rax,%rdi,4), %rdx\n add %rax, %rdx\n jmp *%rdx\n"
    "99: ud2\n"
    "c0: mov target_pointer(%rip), %rax\n call *%rax\n ret\n"
    "c1: call *target_pointer(%rip)\n ret\n"
    "c2: lea target_pointer(%rip), %rcx\n mov $2, %edx\n call *-16(%rcx,%rdx,8)\n ret\n"
    // Through the stack: the operand is read before the return address is pushed.
    "c3: push target_pointer(%rip)\n call *(%rsp)\n pop %rcx\n ret\n"
    "c4: push target_pointer(%rip)\n push $0\n call *8(%rsp)\n pop %rcx\n pop %rcx\n ret\n"
    "c5: jmp *target_pointer(%rip)\n"
    "c6: push target_pointer(%rip)\n mov %rsp, %rcx\n pop %rdx\n jmp *(%rcx)\n"
    // The call overwrites the very slot it reads: rsp-8 holds the target.
    "c7: mov target_pointer(%rip), %rax\n mov %rax, -8(%rsp)\n call *-8(%rsp)\n ret\n"
    "c8: mov target_pointer(%rip), %r12\n xchg %r12, %r13\n call *%r13\n ret\n"
    "c9: notrack jmp *target_pointer(%rip)\n"
    "c10: mov target_pointer(%rip), %rax\n .byte 0xf2\n call *%rax\n .byte 0xf2\n ret\n"
    "the_target: mov $4242, %eax\n ret\n"
    ".p2align 2\n"
    "table: .long c0-table, c1-table, c2-table, c3-table, c4-table, c5-table, c6-table, c7-table, c8-table, c9-table, c10-table\n"
    ".popsection\n"
    ".pushsection .data\n .balign 8\n target_pointer: .quad the_target\n .popsection");

// r12 and r13 belong to the caller; the compiler must know.
__attribute__((noinline)) static long call(long which) {
    long result;
    asm volatile("sub $128, %%rsp; call through; add $128, %%rsp"
                 : "=a"(result), "+D"(which)
                 :
                 : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "r13", "memory", "cc");
    return result;
}

int main(void) {
    for (int round = 0; round < 200; round++)
        for (long i = 0; i <= 10; i++)
            if (call(i) != 4242) check_failed("way %ld failed\n", i);
    puts("11 ways to the same target");
}
