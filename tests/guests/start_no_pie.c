// A program at its fixed address: absolute addresses in code and data, the break behind its data.
// build: -no-pie -fno-pie
#include "check.h"
#include <elf.h>
#include <sys/auxv.h>

int value = 7;
static int *const pointer = &value;
extern char __executable_start[], end[];

int main(void) {
    CHECK_EQ((long)__executable_start, 0x400000);
    unsigned long address;
    asm("movl $value, %k0" : "=r"(address));
    CHECK_EQ(address, (long)&value);
    CHECK_EQ((long)main >> 32, 0);
    Elf64_Phdr *headers = (Elf64_Phdr *)getauxval(AT_PHDR);
    CHECK_EQ((long)headers, 0x400040);
    CHECK((char *)sbrk(0) >= end);
    printf("%d at a fixed address\n", *pointer);
}
