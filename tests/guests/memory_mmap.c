// mmap placement: hints, MAP_FIXED over part of a mapping, MAP_FIXED_NOREPLACE, MAP_32BIT,
// overlaps, contents, and errors.
#include "check.h"
#include <fcntl.h>
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS)
#define RW (PROT_READ | PROT_WRITE)

int main(void) {
    char *base = mmap(NULL, 1 << 20, RW, ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED);
    CHECK_EQ((long)base % 4096, 0);
    for (int i = 0; i < 1 << 20; i += 4096) CHECK_EQ(base[i], 0);
    memset(base, 1, 1 << 20);

    // An occupied hint goes elsewhere; a free one is honoured, rounded down to a page.
    char *other = mmap(base, 0x4000, RW, ANONYMOUS, -1, 0);
    CHECK(other != MAP_FAILED && (other + 0x4000 <= base || other >= base + (1 << 20)));
    CHECK_EQ(base[0], 1);
    CHECK_EQ(munmap(other, 0x4000), 0);
    CHECK_EQ(munmap(base + 0x40000, 0x10000), 0);
    CHECK(mmap(base + 0x40000, 0x4000, RW, ANONYMOUS, -1, 0) == base + 0x40000);
    CHECK(mmap(base + 0x44123, 0x4000, RW, ANONYMOUS, -1, 0) == base + 0x44000);
    puts("hints");

    CHECK(mmap(base + 0x10000, 0x2000, RW, ANONYMOUS | MAP_FIXED, -1, 0) == base + 0x10000);
    CHECK_EQ(base[0x10000], 0);
    CHECK_EQ(base[0xffff], 1);
    CHECK_EQ(base[0x12000], 1);
    CHECK_FAILS(mmap(base + 0x10000, 0x1000, RW, ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0), EEXIST);
    CHECK(mmap(base + 0x48000, 0x1000, RW, ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == base + 0x48000);
    CHECK_FAILS(mmap(base + 1, 0x1000, RW, ANONYMOUS | MAP_FIXED, -1, 0), EINVAL);
    puts("fixed");

    char *low = mmap(NULL, 1 << 16, RW, ANONYMOUS | MAP_32BIT, -1, 0);
    CHECK(low != MAP_FAILED);
    CHECK((unsigned long)low + (1 << 16) <= 1ul << 32);
    memset(low, 3, 1 << 16);
    CHECK_EQ(munmap(low, 1 << 16), 0);
    puts("below 4 GiB");

    CHECK_FAILS(mmap(NULL, 0, RW, ANONYMOUS, -1, 0), EINVAL);
    CHECK_FAILS(mmap(NULL, 4096, RW, MAP_ANONYMOUS, -1, 0), EINVAL);
    CHECK_FAILS(mmap(NULL, 4096, RW, MAP_PRIVATE, -1, 0), EBADF);
    CHECK_FAILS(mmap(NULL, 1ul << 62, RW, ANONYMOUS, -1, 0), ENOMEM);
    CHECK_FAILS(mmap((void *)0x7fffffffffff000, 4096, RW, ANONYMOUS | MAP_FIXED, -1, 0), ENOMEM);
    int file = open("/proc/self/exe", O_RDONLY);
    CHECK_FAILS(mmap(NULL, 4096, RW, MAP_SHARED, file, 0), EACCES);
    CHECK_FAILS(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 1), EINVAL);
    char *head = mmap(NULL, 100, PROT_READ, MAP_PRIVATE, file, 0);
    CHECK(head != MAP_FAILED && memcmp(head, "\x7f" "ELF", 4) == 0);
    char *copy = mmap(NULL, 100, RW, MAP_PRIVATE, file, 0);
    copy[1] = 'X';
    CHECK_EQ(head[1], 'E');
    puts("errors and files");
}
