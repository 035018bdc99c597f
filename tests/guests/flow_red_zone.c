// Leaf functions keep data below the stack pointer across branches, loops, faults that are
// handled elsewhere and vector code; nothing may write there.
// build: -O2
#include "check.h"

long red_zone(long seed, long rounds);
asm(".pushsection .text\n"
    "red_zone:\n"
    " .irp n,8,16,24,32,40,48,56,64,72,80,88,96,104,112,120,128\n mov %rdi, -\\n(%rsp)\n add $1, %rdi\n .endr\n"
    " lea 2f(%rip), %rdx\n"
    "1: dec %rsi\n jz 3f\n test $3, %sil\n jz 4f\n jmp *%rdx\n"
    "2: addq $1, -64(%rsp)\n jmp 1b\n"
    "4: xor %eax, %eax\n xor %edx, %edx\n divl one(%rip)\n xor %edx, %edx\n lea 2b(%rip), %rdx\n jmp 1b\n"
    "3: xor %eax, %eax\n"
    " .irp n,8,16,24,32,40,48,56,64,72,80,88,96,104,112,120,128\n imul $31, %rax, %rax\n add -\\n(%rsp), %rax\n .endr\n"
    " ret\n"
    ".popsection\n"
    ".pushsection .data\n one: .long 0x7fffffff\n .popsection");

static long expected(long seed, long rounds) {
    unsigned long cells[16], hash = 0;
    for (int i = 0; i < 16; i++) cells[i] = seed + i;
    for (long left = rounds - 1; left > 0; left--)
        if (left & 3) cells[7]++;
    for (int i = 0; i < 16; i++) hash = hash * 31 + cells[i];
    return (long)hash;
}

int main(void) {
    for (long i = 1; i < 300; i++) {
        CHECK_EQ(red_zone(i * 1000, i), expected(i * 1000, i));
    }
    puts("red zone intact");
}
