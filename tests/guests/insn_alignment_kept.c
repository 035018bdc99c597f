// The AC flag, while everything is aligned: nothing faults, and `pushf` shows it. Programs find out so which processor they run on.
#include "check.h"

long checked_work(long *words, long count);
asm(".pushsection .text\n"
    // What a record of a stream holds of such a block is not aligned.
    "checked_work: pushfq\n orq $0x40000, (%rsp)\n popfq\n"
    " xor %eax, %eax\n"
    "1: mov (%rdi,%rsi,8), %rdx\n mov %edx, 512(%rdi)\n mov %dl, 520(%rdi)\n add %rdx, %rax\n mov %rax, 528(%rdi)\n"
    " push %rdx\n push %rax\n pushfq\n pop %r10\n and $0x40000, %r10d\n shr $18, %r10d\n mov %r10b, 521(%rdi)\n add %r10, %rax\n"
    " call 2f\n pop %rdx\n pop %rdx\n"
    " movaps 544(%rdi), %xmm0\n movaps %xmm0, 560(%rdi)\n movb $1, 522(%rdi)\n movw $2, 524(%rdi)\n"
    " sub $1, %rsi\n jns 1b\n"
    " pushfq\n andq $~0x40000, (%rsp)\n popfq\n ret\n"
    "2: mov %rax, 536(%rdi)\n ret\n"
    ".popsection");

static long words[80] __attribute__((aligned(64)));

int main(void) {
    for (int i = 0; i < 64; i++) words[i] = i * 3;
    long sum = checked_work(words, 63);
    printf("%ld, flag seen: %d\n", sum, ((char *)words)[521]);
    CHECK_EQ(sum, 63 * 64 / 2 * 3 + 64);
    CHECK_EQ(((char *)words)[521], 1);
}
