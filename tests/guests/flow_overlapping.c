// Jumps into the middle of an instruction: the same bytes decoded in two ways, in both orders.
#include "check.h"

int overlap(int which);
int chain(int which);
asm(".pushsection .text\n"
    // b8 83 c0 05 c3 as `mov eax, 0xc305c083`, from its second byte as `add eax, 5; ret`.
    "overlap: mov $10, %eax\n test %edi, %edi\n jnz 1f+1\n"
    "1: .byte 0xb8, 0x83, 0xc0, 0x05, 0xc3\n shr $24, %eax\n ret\n"
    // eb ff c0: a jump into its own last byte, which begins `inc eax`.
    "chain: xor %eax, %eax\n cmp $1, %edi\n je 2f\n"
    " .byte 0xeb, 0xff, 0xc0\n ret\n"
    // A prefix that is jumped over: lock or not.
    "2: lea counter(%rip), %rdx\n mov $1, %ecx\n jmp 3f+1\n"
    "3: lock addl $3, (%rdx)\n dec %ecx\n jns 3b\n mov (%rdx), %eax\n ret\n"
    ".popsection\n"
    ".pushsection .data\n counter: .long 0\n .popsection");

int main(void) {
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(overlap(0), 0xc3);
        CHECK_EQ(overlap(1), 15);
        CHECK_EQ(chain(0), 1);
    }
    for (int i = 1; i <= 100; i++) CHECK_EQ(chain(1), i * 6);
    puts("both readings of the bytes");
}
