// All general registers, all xmm registers and the red zone survive direct and indirect calls,
// jumps and returns, also on the first run of each.
#include "check.h"

int keep(void);
unsigned long kept_stack;
asm(".pushsection .text\n"
    ".macro load\n"
    " .irp r,rax,rbx,rcx,rdx,rsi,rdi,rbp,r8,r9,r10,r11,r12,r13,r14,r15\n mov $0x1122334455667788, %\\r\n rol $5, %\\r\n .endr\n"
    " .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n movq %rax, %xmm\\n\n .endr\n"
    " mov %rax, -8(%rsp)\n mov %rax, -128(%rsp)\n mov %rax, -72(%rsp)\n"
    ".endm\n"
    ".macro verify\n"
    " cmp %rax, -8(%rsp)\n jne fail\n cmp %rax, -128(%rsp)\n jne fail\n cmp %rax, -72(%rsp)\n jne fail\n"
    " .irp r,rbx,rcx,rdx,rsi,rdi,rbp,r8,r9,r10,r11,r12,r13,r14,r15\n cmp %rax, %\\r\n jne fail\n .endr\n"
    " .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n movq %xmm\\n, %rbx\n cmp %rax, %rbx\n jne fail\n .endr\n"
    ".endm\n"
    "keep: push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n mov %rsp, kept_stack(%rip)\n"
    " load\n jmp 1f\n ud2\n1: verify\n"
    " load\n jmp *jump_target(%rip)\n ud2\nlanding: verify\n"
    // Calls overwrite the slot below the stack pointer: only what lies deeper is compared.
    " load\n sub $256, %rsp\n load\n call nothing\n mov %rax, -8(%rsp)\n verify\n add $256, %rsp\n"
    " load\n sub $256, %rsp\n load\n call *call_target(%rip)\n mov %rax, -8(%rsp)\n verify\n add $256, %rsp\n"
    " load\n cmp %rax, %rax\n jne fail\n je 2f\n ud2\n2: verify\n"
    " load\n test %rax, %rax\n jz fail\n verify\n"
    " xor %eax, %eax\n jmp done\n"
    "fail: mov $1, %eax\n"
    "done: mov kept_stack(%rip), %rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n"
    "nothing: ret\n"
    ".popsection\n"
    ".pushsection .data\n .balign 8\n jump_target: .quad landing\n call_target: .quad nothing\n .popsection");

int main(void) {
    for (int i = 0; i < 2000; i++) CHECK_EQ(keep(), 0);
    puts("registers kept");
}
