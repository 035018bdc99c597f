// LOOP, LOOPE, LOOPNE, JRCXZ and JECXZ, which have short displacements only and leave flags alone;
// also with 32-bit counts.
#include "check.h"

long loops(long which, long count);
asm(".pushsection .text\n"
    "loops: mov %rsi, %rcx\n xor %eax, %eax\n"
    " cmp $0, %edi\n je 10f\n cmp $1, %edi\n je 11f\n cmp $2, %edi\n je 12f\n"
    " cmp $3, %edi\n je 13f\n cmp $4, %edi\n je 14f\n cmp $5, %edi\n je 15f\n cmp $6, %edi\n je 16f\n ud2\n"
    "10: add $1, %rax\n loop 10b\n ret\n"
    // LOOPE: while equal and counting.
    "11: add $1, %rax\n cmp $1000, %rax\n setne %dl\n cmp $1, %dl\n loope 11b\n ret\n"
    "12: add $1, %rax\n cmp $7, %rax\n loopne 12b\n ret\n"
    "13: jrcxz 20f\n mov $1, %eax\n ret\n20: mov $2, %eax\n ret\n"
    "14: jecxz 21f\n mov $1, %eax\n ret\n21: mov $2, %eax\n ret\n"
    // The 32-bit form counts in ecx and clears the upper half.
    "15: add $1, %rax\n addr32 loop 15b\n add %rcx, %rax\n ret\n"
    // Carry and zero survive the loop instruction.
    "16: stc\n22: adc $0, %rax\n stc\n loop 22b\n jnc 23f\n ret\n23: mov $-1, %rax\n ret\n"
    ".popsection");

int main(void) {
    for (int round = 0; round < 100; round++) {
        CHECK_EQ(loops(0, 1000), 1000);
        CHECK_EQ(loops(0, 1), 1);
        CHECK_EQ(loops(1, 50), 50);
        CHECK_EQ(loops(2, 50), 7);
        CHECK_EQ(loops(2, 5), 5);
        CHECK_EQ(loops(3, 0), 2);
        CHECK_EQ(loops(3, 1l << 40), 1);
        CHECK_EQ(loops(4, 0), 2);
        CHECK_EQ(loops(4, 1l << 40), 2);
        CHECK_EQ(loops(4, 5), 1);
        CHECK_EQ(loops(5, (1l << 40) + 10), 10);
        CHECK_EQ(loops(6, 20), 20);
    }
    puts("counted right");
}
