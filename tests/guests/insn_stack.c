// Instructions that use the stack in unusual ways: push and pop of rsp and of stack memory, ENTER
// with levels, LEAVE, 16-bit pushes, segment pushes, XCHG with rsp, and lea on rsp.
#include "check.h"

long stack_forms(long *out);
asm(".pushsection .text\n"
    "stack_forms: push %rbp\n push %rbx\n mov %rsp, %rbx\n"
    // push rsp stores the old value; pop rsp loads the stored one.
    " push %rsp\n pop %rax\n sub %rbx, %rax\n mov %rax, (%rdi)\n"
    " lea -64(%rsp), %rax\n push %rax\n pop %rsp\n mov %rbx, %rax\n sub %rsp, %rax\n mov %rax, 8(%rdi)\n mov %rbx, %rsp\n"
    // pop to memory relative to rsp uses the incremented rsp.
    " sub $64, %rsp\n movq $11, 8(%rsp)\n movq $22, (%rsp)\n popq 16(%rsp)\n mov 16(%rsp), %rax\n mov %rax, 16(%rdi)\n mov %rbx, %rsp\n"
    " sub $64, %rsp\n movq $33, 8(%rsp)\n pushq 8(%rsp)\n pop %rax\n mov %rax, 24(%rdi)\n mov %rbx, %rsp\n"
    // 16-bit push and pop move by two.
    " pushw $0x1234\n mov %rbx, %rax\n sub %rsp, %rax\n mov %rax, 32(%rdi)\n popw %ax\n movzwl %ax, %eax\n mov %rax, 40(%rdi)\n"
    " push $-5\n pop %rax\n mov %rax, 48(%rdi)\n pushq $0x7fffffff\n pop %rax\n mov %rax, 56(%rdi)\n"
    " push %fs\n pop %rax\n movzwl %ax, %eax\n mov %rax, 64(%rdi)\n"
    // enter with no levels and with three.
    " mov $0x77, %ebp\n enter $32, $0\n mov %rbx, %rax\n sub %rsp, %rax\n mov %rax, 72(%rdi)\n leave\n mov %rbp, 80(%rdi)\n"
    " sub $128, %rsp\n lea 64(%rsp), %rbp\n movq $5, -8(%rbp)\n movq $6, -16(%rbp)\n mov %rsp, %rdx\n enter $16, $3\n"
    " mov %rdx, %rax\n sub %rsp, %rax\n mov %rax, 88(%rdi)\n mov -8(%rbp), %rax\n mov %rax, 96(%rdi)\n mov -16(%rbp), %rax\n mov %rax, 104(%rdi)\n"
    " mov -24(%rbp), %rax\n sub %rbp, %rax\n mov %rax, 112(%rdi)\n leave\n mov %rbx, %rsp\n"
    " lea own_stack_top(%rip), %rax\n xchg %rax, %rsp\n push $99\n pop %rcx\n xchg %rax, %rsp\n mov %rcx, 120(%rdi)\n"
    " mov %rbx, %rax\n sub %rsp, %rax\n mov %rax, 128(%rdi)\n"
    " mov %rbx, %rsp\n pop %rbx\n pop %rbp\n xor %eax, %eax\n ret\n"
    ".popsection\n"
    ".pushsection .bss\n .balign 16\n own_stack: .zero 256\n own_stack_top: .zero 16\n .popsection");

int main(void) {
    long out[20];
    for (int round = 0; round < 50; round++) {
        memset(out, 0xee, sizeof out);
        CHECK_EQ(stack_forms(out), 0);
        if (round == 0)
            for (int i = 0; i < 17; i++) printf("%d: %ld\n", i, out[i]);
    }
}
