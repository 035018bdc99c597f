// Huge reservations: 64 GiB and more without access, parts of which are opened and given back.
#include "check.h"
#include <fcntl.h>

int main(void) {
    const size_t giga = 1ul << 30;
    for (size_t size = 64 * giga; size <= 1024 * giga; size *= 4) {
        char *base = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        CHECK(base != MAP_FAILED);
        for (size_t at = 0; at < size; at += size / 8) {
            CHECK_EQ(mprotect(base + at, 8192, PROT_READ | PROT_WRITE), 0);
            memset(base + at, 1, 8192);
        }
        CHECK(mmap(base + size / 2, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                   0) == base + size / 2);
        CHECK_EQ(base[size / 2], 0);
        CHECK_EQ(base[size / 4], 1);
        // Aligning the usual way: cut off both ends.
        CHECK_EQ(munmap(base, giga), 0);
        CHECK_EQ(munmap(base + size - giga, giga), 0);
        CHECK_EQ(munmap(base + giga, size - 2 * giga), 0);
        printf("%zu GiB\n", size / giga);
    }
    // Several at once, as sanitizers and garbage collectors do.
    char *areas[16];
    for (int i = 0; i < 16; i++) {
        areas[i] = mmap(NULL, 64 * giga, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        CHECK(areas[i] != MAP_FAILED);
        for (int j = 0; j < i; j++) CHECK(areas[i] + 64 * giga <= areas[j] || areas[j] + 64 * giga <= areas[i]);
    }
    puts("16 areas of 64 GiB");
}
