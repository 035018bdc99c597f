// A program that patches its own text: makes the page writable, replaces a function's first
// bytes by a jump, and restores it, as tracers and hot-patchers do.
#include "check.h"

__attribute__((noinline, aligned(64))) static int original(int x) {
    asm volatile("");
    return x + 1;
}
__attribute__((noinline, aligned(64))) static int replacement(int x) {
    asm volatile("");
    return x * 100;
}
__attribute__((noinline)) static int caller(int x) { return original(x) + 5; }

int main(void) {
    unsigned char *at = (unsigned char *)original, saved[5], jump[5] = {0xe9};
    memcpy(saved, at, 5);
    int distance = (int)((unsigned char *)replacement - (at + 5));
    memcpy(jump + 1, &distance, 4);
    void *page = (void *)((long)at & -4096);
    int (*volatile pointer)(int) = original;
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(caller(i), i + 6);
        CHECK_EQ(pointer(i), i + 1);
        CHECK_EQ(mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
        memcpy(at, jump, 5);
        CHECK_EQ(mprotect(page, 8192, PROT_READ | PROT_EXEC), 0);
        CHECK_EQ(caller(i), i * 100 + 5);
        CHECK_EQ(pointer(i), i * 100);
        CHECK_EQ(mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
        memcpy(at, saved, 5);
        // Left writable half of the time.
        if (i % 2) CHECK_EQ(mprotect(page, 8192, PROT_READ | PROT_EXEC), 0);
    }
    puts("patched 200 times");
}
