// Far transfers within 64-bit code: lret, far jump and far call through memory, and iretq, which
// also loads flags and the stack pointer.
// build: -no-pie
#include "check.h"

long far(long which);
asm(".pushsection .text\n"
    "far: cmp $0, %edi\n je 10f\n cmp $1, %edi\n je 11f\n cmp $2, %edi\n je 12f\n cmp $3, %edi\n je 13f\n ud2\n"
    "10: mov %cs, %eax\n push %rax\n lea 20f(%rip), %rax\n push %rax\n lretq\n ud2\n20: mov $100, %eax\n ret\n"
    // iretq: rip, cs, rflags, rsp, ss.
    "11: mov %rsp, %rdx\n mov %ss, %eax\n push %rax\n push %rdx\n push $0x203\n mov %cs, %eax\n push %rax\n"
    " lea 21f(%rip), %rax\n push %rax\n iretq\n ud2\n"
    "21: setc %al\n movzbl %al, %eax\n add $100, %eax\n cmp %rsp, %rdx\n jne 22f\n ret\n22: ud2\n"
    // The far pointers have 32-bit offsets, which is why this program lies low in memory.
    "12: lea 23f(%rip), %rax\n mov %eax, -16(%rsp)\n mov %cs, -12(%rsp)\n ljmp *-16(%rsp)\n ud2\n"
    "23: mov $102, %eax\n ret\n"
    "13: lea 25f(%rip), %rax\n mov %eax, -80(%rsp)\n mov %cs, -76(%rsp)\n lcall *-80(%rsp)\n add $1, %eax\n ret\n"
    "25: mov $102, %eax\n lretl\n"
    ".popsection");

int main(void) {
    for (int round = 0; round < 50; round++)
        for (int i = 0; i < 4; i++) {
            long got = far(i);
            if (got != 100 + i) check_failed("far transfer %d gave %ld\n", i, got);
        }
    puts("four far transfers");
}
