// Code on the stack: trampolines of nested functions, hand-made code, and `push rsp; ret`.
// build: -z execstack -Wno-trampolines
#include "check.h"

static int apply(int (*function)(int), int value) { return function(value); }

static int nested(int add, int depth) {
    int inner(int value) { return value * 2 + add; }
    int result = apply(inner, depth);
    if (depth > 0) result += nested(add + 1, depth - 1);
    return result;
}

__attribute__((noinline)) static int on_stack(int value) {
    unsigned char code[16] = {0x8d, 0x47, (unsigned char)value, 0xc3}; // lea eax, [rdi + value]; ret
    asm volatile("" ::"r"(code) : "memory");
    return ((int (*)(int))code)(100);
}

long run_pushed(void);
// Pushes eight bytes of code and returns into them: mov al, 77; pop rdx; jmp rcx.
asm(".pushsection .text\n"
    "run_pushed: lea 1f(%rip), %rcx\n xor %eax, %eax\n"
    " movabs $0x9090e1ff5a5a4db0, %rdx\n" // b0 4d 5a 5a ff e1 90 90
    " push %rdx\n push %rdx\n push %rsp\n ret\n"
    "1: ret\n"
    ".popsection");

int main(void) {
    long sum = 0;
    for (int i = 0; i < 200; i++) sum += nested(i, 20);
    printf("trampolines: %ld\n", sum);
    for (int i = 0; i < 100; i++) CHECK_EQ(on_stack(i), 100 + i);
    puts("new code at the same place 100 times");
    printf("pushed code: %ld\n", run_pushed());
}
