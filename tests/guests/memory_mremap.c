// mremap: shrinking, growing in place, moving, to a fixed place, duplicating, and errors.
#include "check.h"
#define PAGE 4096
#define RW (PROT_READ | PROT_WRITE)
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

static char *pages(int count) {
    char *base = mmap(NULL, count * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED);
    for (int i = 0; i < count; i++) base[i * PAGE] = 'a' + i;
    return base;
}
static void expect(char *base, const char *marks) {
    for (int i = 0; marks[i]; i++) CHECK_EQ(base[i * PAGE], marks[i] == '0' ? 0 : marks[i]);
}
static int is_mapped(char *address) {
    unsigned char state;
    return mincore(address, PAGE, &state) == 0;
}

int main(void) {
    char *base = pages(8);
    CHECK(mremap(base, 8 * PAGE, 4 * PAGE, 0) == base);
    expect(base, "abcd");
    CHECK(!is_mapped(base + 4 * PAGE));
    CHECK(mremap(base, 4 * PAGE, 6 * PAGE, 0) == base);
    expect(base, "abcd00");
    puts("shrunk and grown in place");

    CHECK(mmap(base + 6 * PAGE, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == base + 6 * PAGE);
    CHECK_FAILS(mremap(base, 6 * PAGE, 10 * PAGE, 0), ENOMEM);
    char *moved = mremap(base, 6 * PAGE, 100 * PAGE, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED && moved != base);
    expect(moved, "abcd00");
    CHECK(!is_mapped(base));
    puts("moved");

    char *target = pages(4);
    CHECK(mremap(moved, 3 * PAGE, 3 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target) == target);
    expect(target, "abcd");
    CHECK(!is_mapped(moved) && is_mapped(moved + 3 * PAGE));
    expect(moved + 3 * PAGE, "d00");
    puts("moved to a fixed place");

    char *left = pages(2);
    char *taken = mremap(left, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    CHECK(taken != MAP_FAILED);
    expect(taken, "ab");
    expect(left, "00");
    puts("taken out, the old place stays mapped");

    char *shared = mmap(NULL, 2 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *twin = mremap(shared, 0, 2 * PAGE, MREMAP_MAYMOVE);
    CHECK(twin != MAP_FAILED);
    twin[5] = 'z';
    CHECK_EQ(shared[5], 'z');
    puts("a shared mapping twice");

    CHECK_FAILS(mremap(base, PAGE, 0, 0), EINVAL);
    CHECK_FAILS(mremap(shared + 1, PAGE, PAGE, 0), EINVAL);
    CHECK_FAILS(mremap(target, PAGE, PAGE, 8), EINVAL);
    CHECK_FAILS(mremap(target, PAGE, PAGE, MREMAP_FIXED, shared), EINVAL);
    CHECK_FAILS(mremap(target, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target + PAGE), EINVAL);
    char *hole = pages(2);
    CHECK_EQ(munmap(hole, 2 * PAGE), 0);
    CHECK_FAILS(mremap(hole, PAGE, 2 * PAGE, MREMAP_MAYMOVE), EFAULT);
    puts("errors as documented");

    char *grown = pages(1);
    for (int size = 2; size <= 512; size *= 2) {
        grown = mremap(grown, size / 2 * PAGE, size * PAGE, MREMAP_MAYMOVE);
        CHECK(grown != MAP_FAILED);
        CHECK_EQ(grown[0], 'a');
        memset(grown + size / 2 * PAGE, 1, size / 2 * PAGE);
    }
    puts("doubled to 2 MiB");
}
