// Unusual returns: rewritten return addresses, ret imm16, push and ret, call next and pop,
// retpolines, returns that skip frames, unbalanced calls, and returns through other registers.
#include "check.h"

long tricks(long which);
asm(".pushsection .text\n"
    "tricks: cmp $0, %edi\n je 10f\n cmp $1, %edi\n je 11f\n cmp $2, %edi\n je 12f\n"
    " cmp $3, %edi\n je 13f\n cmp $4, %edi\n je 14f\n cmp $5, %edi\n je 15f\n"
    " cmp $6, %edi\n je 16f\n cmp $7, %edi\n je 17f\n cmp $8, %edi\n je 18f\n ud2\n"
    // 0: the callee adds to its return address and skips an instruction.
    "10: call 20f\n ud2\n mov $100, %eax\n ret\n"
    "20: addq $2, (%rsp)\n ret\n"
    // 1: ret imm16 drops arguments.
    "11: push $1\n push $2\n push $3\n call 21f\n ret\n"
    "21: mov 8(%rsp), %rax\n add 24(%rsp), %rax\n add $97, %rax\n ret $24\n"
    // 2: push and ret as a jump.
    "12: lea 22f(%rip), %rax\n push %rax\n ret\n ud2\n22: mov $102, %eax\n ret\n"
    // 3: call next, pop: the program counter in a register.
    "13: call 23f\n23: pop %rax\n lea 23b(%rip), %rdx\n sub %rdx, %rax\n add $103, %rax\n ret\n"
    // 4: a retpoline: call, overwrite the return address, ret.
    "14: lea 24f(%rip), %r11\n call 25f\n26: pause\n lfence\n jmp 26b\n"
    "25: mov %r11, (%rsp)\n ret\n24: mov $104, %eax\n ret\n"
    // 5: returns past its caller.
    "15: call 27f\n ud2\n27: add $8, %rsp\n mov $105, %eax\n ret\n"
    // 6: returns by pop and jmp.
    "16: call 28f\n add $1, %eax\n ret\n28: pop %rcx\n mov $105, %eax\n jmp *%rcx\n"
    // 7: jumps to a function with a hand-pushed return address.
    "17: lea 29f(%rip), %rcx\n push %rcx\n jmp 30f\n ud2\n29: add $7, %eax\n ret\n30: mov $100, %eax\n ret\n"
    // 8: calls that never return, a hundred deep, then one jump out.
    "18: mov %rsp, %rdx\n mov $100, %ecx\n31: dec %ecx\n jz 32f\n call 31b\n ud2\n"
    "32: mov %rdx, %rsp\n mov $108, %eax\n ret\n"
    ".popsection");

// The function's own caller changes where it returns to.
__attribute__((noinline)) static long *frame(void) { return __builtin_frame_address(0); }

int main(void) {
    (void)frame;
    for (int round = 0; round < 300; round++)
        for (int i = 0; i < 9; i++) {
            long got = tricks(i);
            if (got != (i == 1 ? 101 : 100 + i)) check_failed("trick %d gave %ld\n", i, got);
        }
    puts("9 tricks, 300 times");
}
