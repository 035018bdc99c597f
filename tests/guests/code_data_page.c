// Code and data on one page: a function that counts in a variable next to itself, called often,
// and neighbours whose data changes must not disturb each other.
#include "check.h"

int main(void) {
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    // Eight functions of 64 bytes: inc dword [rip+32]; mov eax, [rip+26]; ret
    for (int i = 0; i < 8; i++)
        memcpy(page + i * 64, "\xff\x05\x20\x00\x00\x00\x8b\x05\x1a\x00\x00\x00\xc3", 13);
    long sum = 0;
    for (int i = 0; i < 20000; i++) {
        int (*function)(void) = (int (*)(void))(page + i % 8 * 64);
        sum += function();
    }
    printf("sum %ld\n", sum);
    for (int i = 0; i < 8; i++) {
        int value;
        memcpy(&value, page + i * 64 + 6 + 32, 4);
        CHECK_EQ(value, 2500);
    }
    // The program itself writes the data, and once in a while the code.
    for (int i = 0; i < 5000; i++) {
        int value = i;
        memcpy(page + 38, &value, 4);
        if (i % 500 == 499) page[1] ^= 0x08; // inc and dec in turn
        int expected = (i + 1) / 500 % 2 ? i - 1 : i + 1;
        CHECK_EQ(((int (*)(void))page)(), expected);
    }
    puts("data and code on one page");
}
