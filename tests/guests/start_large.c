// A program with large sections: 300 MB of zeros that are hardly touched, a megabyte of constants,
// and aligned data.
// build: -O1 -mcmodel=medium
#include "check.h"

static char huge[300 << 20];
static const int table[1 << 18] = {[0] = 1, [1000] = 2, [(1 << 18) - 1] = 3};
static char page_aligned[4096] __attribute__((aligned(4096))) = {1};
static char widely_aligned[100] __attribute__((aligned(65536)));

int main(void) {
    for (size_t i = 0; i < sizeof huge; i += 10 << 20) {
        CHECK_EQ(huge[i], 0);
        huge[i] = (char)(i >> 20);
    }
    huge[sizeof huge - 1] = 77;
    CHECK_EQ((long)page_aligned % 4096, 0);
    CHECK_EQ((long)widely_aligned % 65536, 0);
    volatile const int *reader = table;
    printf("%d %d %d %d\n", reader[0], reader[1000], reader[(1 << 18) - 1], huge[sizeof huge - 1]);
}
