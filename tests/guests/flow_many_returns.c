// Twenty thousand distinct return sites of one function, and twenty thousand distinct targets of
// one indirect call: nothing may depend on a table that is too small.
#include "check.h"

long call_sites(void);
extern char functions[];
asm(".pushsection .text\n"
    "add_one: add $1, %rax\n ret\n"
    "call_sites: xor %eax, %eax\n"
    " .rept 20000\n call add_one\n .endr\n ret\n"
    // 20000 functions of 16 bytes, each returning its own number.
    ".p2align 4\n"
    "functions:\n"
    " .set number, 0\n"
    " .rept 20000\n .p2align 4\n mov $number, %eax\n ret\n .set number, number + 1\n .endr\n"
    ".popsection");

int main(void) {
    for (int i = 0; i < 5; i++) CHECK_EQ(call_sites(), 20000);
    puts("20000 return sites");
    long sum = 0;
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 20000; i++) {
            int index = (i * 7919) % 20000;
            int (*function)(void) = (int (*)(void))(functions + index * 16);
            int got = function();
            CHECK_EQ(got, index);
            sum += got;
        }
    printf("20000 targets, sum %ld\n", sum);
}
