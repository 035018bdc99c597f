// Very long straight code: one block of 20000 instructions, and a chain of 20000 short blocks.
#include "check.h"

long straight(long x);
long chained(long x);
asm(".pushsection .text\n"
    "straight: mov %rdi, %rax\n"
    " .rept 10000\n imul $3, %rax, %rax\n add $7, %rax\n .endr\n ret\n"
    "chained: mov %rdi, %rax\n"
    " .rept 20000\n add $1, %rax\n jc 1f\n .endr\n1: ret\n"
    ".popsection");

int main(void) {
    unsigned long expected = 5;
    for (int i = 0; i < 10000; i++) expected = expected * 3 + 7;
    for (int i = 0; i < 20; i++) CHECK_EQ(straight(5), expected);
    for (int i = 0; i < 20; i++) CHECK_EQ(chained(i), 20000 + i);
    CHECK_EQ(chained(-10), 0);
    printf("%016lx\n", expected);
}
