// Other code at the same address: unmapped and mapped again, mapped over, moved there, discarded.
#include "check.h"
#define PAGE 4096

static void fill(unsigned char *page, int value) {
    page[0] = 0xb8;
    memcpy(page + 1, &value, 4);
    page[5] = 0xc3;
}
static int call(void *address) { return ((int (*)(void))address)(); }
#define RWX (PROT_READ | PROT_WRITE | PROT_EXEC)
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)

int main(void) {
    unsigned char *page = mmap(NULL, PAGE, RWX, PRIVATE, -1, 0);
    CHECK(page != MAP_FAILED);
    for (int i = 0; i < 500; i++) {
        CHECK(mmap(page, PAGE, RWX, PRIVATE | MAP_FIXED, -1, 0) == page);
        fill(page, i);
        CHECK_EQ(call(page), i);
    }
    puts("mapped over");
    for (int i = 0; i < 500; i++) {
        CHECK_EQ(munmap(page, PAGE), 0);
        CHECK(mmap(page, PAGE, RWX, PRIVATE, -1, 0) == page);
        fill(page, i * 3);
        CHECK_EQ(call(page), i * 3);
    }
    puts("unmapped and mapped");
    for (int i = 0; i < 300; i++) {
        unsigned char *other = mmap(NULL, PAGE, RWX, PRIVATE, -1, 0);
        fill(other, i * 5);
        CHECK_EQ(call(other), i * 5);
        CHECK(mremap(other, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page) == page);
        CHECK_EQ(call(page), i * 5);
    }
    puts("moved there");
    // A file's page, changed privately, then discarded: the file's code is back.
    int file = memfd_create("code", 0);
    unsigned char original[PAGE] = {0};
    fill(original, 111);
    CHECK_EQ(write(file, original, PAGE), PAGE);
    CHECK(mmap(page, PAGE, RWX, MAP_PRIVATE | MAP_FIXED, file, 0) == page);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(call(page), 111);
        fill(page, i);
        CHECK_EQ(call(page), i);
        CHECK_EQ(madvise(page, PAGE, MADV_DONTNEED), 0);
    }
    puts("discarded");
    // Two files at one address in turn, as dlclose and dlopen do.
    int second = memfd_create("code", 0);
    fill(original, 222);
    CHECK_EQ(write(second, original, PAGE), PAGE);
    for (int i = 0; i < 200; i++) {
        CHECK(mmap(page, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, i % 2 ? second : file, 0) == page);
        CHECK_EQ(call(page), i % 2 ? 222 : 111);
    }
    puts("two files in turn");
}
