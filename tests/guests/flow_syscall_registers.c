// The syscall instruction: rcx holds the next instruction's address, r11 the flags, rax the
// result; everything else is untouched, flags too.
#include "check.h"

int direct(unsigned long flags);
extern char after_call[];
unsigned long got_rcx, got_r11, got_flags, got_rax, kept;
asm(".pushsection .text\n"
    "direct: push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n mov %rsp, kept(%rip)\n"
    " push %rdi\n"
    " .irp r,rbx,rdx,rsi,rdi,rbp,r8,r9,r10,r12,r13,r14,r15\n mov $0x0123456789abcdef, %\\r\n .endr\n"
    " movq %rbx, %xmm0\n movq %rbx, %xmm7\n movq %rbx, %xmm15\n"
    " mov $39, %eax\n popfq\n"
    " movq $77, -64(%rsp)\n"
    " syscall\n"
    "after_call: mov %rcx, got_rcx(%rip)\n mov %r11, got_r11(%rip)\n mov %rax, got_rax(%rip)\n"
    " lea -128(%rsp), %rsp\n pushfq\n pop got_flags(%rip)\n lea 128(%rsp), %rsp\n cld\n"
    " cmpq $77, -64(%rsp)\n jne 1f\n"
    " mov $0x0123456789abcdef, %rax\n"
    " .irp r,rbx,rdx,rsi,rdi,rbp,r8,r9,r10,r12,r13,r14,r15\n cmp %rax, %\\r\n jne 1f\n .endr\n"
    " .irp n,0,7,15\n movq %xmm\\n, %rbx\n cmp %rax, %rbx\n jne 1f\n .endr\n"
    " cmp %rsp, kept(%rip)\n jne 1f\n"
    " xor %eax, %eax\n jmp 2f\n1: mov $1, %eax\n"
    "2: mov kept(%rip), %rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n"
    ".popsection");

int main(void) {
    const unsigned long bits[] = {1, 4, 0x10, 0x40, 0x80, 0x400, 0x800};
    for (unsigned subset = 0; subset < 128; subset++) {
        unsigned long flags = 0x202;
        for (int i = 0; i < 7; i++)
            if (subset >> i & 1) flags |= bits[i];
        CHECK_EQ(direct(flags), 0);
        CHECK_EQ(got_rcx, (long)after_call);
        CHECK_EQ(got_r11 & 0xcd5, flags & 0xcd5);
        CHECK_EQ(got_r11 & 0x202, 0x202);
        CHECK_EQ(got_flags & 0xcd5, flags & 0xcd5);
        CHECK_EQ(got_rax, getpid());
    }
    puts("registers and flags kept by 128 calls");
}
