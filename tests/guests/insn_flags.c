// PUSHF and POPF: which bits change, 16-bit forms, AC and ID and NT, LAHF and SAHF, STD and CLD,
// and arithmetic that depends on a flag set far before.
#include "check.h"

static unsigned long flags_after(unsigned long flags) {
    unsigned long result;
    asm volatile("push %1; popfq; pushfq; pop %0; cld" : "=&r"(result) : "r"(flags) : "cc");
    return result;
}

int main(void) {
    printf("all arithmetic: %#lx\n", flags_after(0xcd5 | 0x202));
    printf("none: %#lx\n", flags_after(0x202));
    // IF, IOPL, VIF and VIP cannot be changed from user mode; reserved bits stay as they are.
    printf("privileged ignored: %#lx\n", flags_after(0x202 ^ 0x200 ^ 0x3000 ^ 0x180000));
    printf("id flag: %#lx\n", flags_after(0x202 | 1 << 21) & 1 << 21);
    unsigned long result;
    asm volatile("push %1; popfq; pushfq; pop %0; push $0x202; popfq" : "=&r"(result) : "r"(0x202ul | 1 << 14) : "cc");
    printf("nested task flag: %#lx\n", result & 1 << 14);
    // AC: set and cleared without any unaligned access in between.
    asm volatile("push %1; popfq; pushfq; pop %0; push $0x202; popfq" : "=&r"(result) : "r"(0x202ul | 1 << 18) : "cc");
    printf("alignment flag: %#lx\n", result & 1 << 18);
    unsigned short narrow;
    asm volatile("pushw $0x0895; popfw; pushfw; popw %0" : "=r"(narrow)::"cc");
    printf("16 bits: %#x\n", narrow);
    unsigned char high;
    asm volatile("mov $0xd5, %%ah; sahf; mov $0, %%ah; lahf; mov %%ah, %%al" : "=a"(high)::"cc");
    printf("lahf: %#x\n", high);
    long chain = 0;
    asm volatile("stc; mov $100, %%ecx; 1: lea -1(%%rcx), %%rcx; adc $0, %0; stc; jrcxz 2f; jmp 1b; 2: cmc; sbb $0, %0" : "+r"(chain)::"rcx", "cc");
    printf("carry chain: %ld\n", chain);
    unsigned char set[16];
    asm volatile("mov $0x7fffffff, %%eax; add $1, %%eax; seto %0; sets %1; setc %2; setz %3; setp %4; setl %5; setg %6"
                 : "=m"(set[0]), "=m"(set[1]), "=m"(set[2]), "=m"(set[3]), "=m"(set[4]), "=m"(set[5]), "=m"(set[6])::"rax", "cc");
    for (int i = 0; i < 7; i++) printf("%d", set[i]);
    puts("");
    // Shifts by zero leave the flags alone; rotates touch carry and overflow only.
    asm volatile("stc; mov $0, %%ecx; shl %%cl, %%rax; setc %0; xor %%eax, %%eax; rol $1, %%rax; setz %1" : "=m"(set[0]), "=m"(set[1])::"rax", "rcx", "cc");
    printf("%d%d\n", set[0], set[1]);
    asm volatile("stc; inc %%rax; setc %0; clc; dec %%rax; setc %1" : "=m"(set[0]), "=m"(set[1])::"rax", "cc");
    printf("%d%d\n", set[0], set[1]);
}
