// Memory that is moved long after it was written: what nobody has touched in between comes along, zeroes included.
#include "check.h"
#define PAGE 4096
#define PAGES 12
#define RW (PROT_READ | PROT_WRITE)

static volatile unsigned long work;

static void spend_time(void) {
    for (int i = 0; i < 40000; i++) work += i;
}

int main(void) {
    char *base = mmap(NULL, PAGES * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *place = mmap(NULL, 2 * PAGES * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED && place != MAP_FAILED);
    for (int i = 0; i < PAGES * PAGE; i++) base[i] = 1 + i % 251;
    memset(place, 7, 2 * PAGES * PAGE);
    spend_time();

    // Some of it is touched again before it moves: half a word becomes zero, another is read.
    memset(base + 20, 0, 4);
    CHECK_EQ((unsigned char)base[2 * PAGE + 5], 1 + (2 * PAGE + 5) % 251);
    spend_time();

    CHECK(mremap(base, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place);
    memset(place + 3 * PAGE + 8, 0, 3);
    spend_time();

    char *again = place + PAGES * PAGE;
    CHECK(mremap(place, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, again) == again);
    spend_time();
    for (int i = 0; i < PAGES * PAGE; i++) {
        int is_zero = (i >= 20 && i < 24) || (i >= 3 * PAGE + 8 && i < 3 * PAGE + 11);
        CHECK_EQ((unsigned char)again[i], is_zero ? 0 : 1 + i % 251);
    }
    puts("moved twice");
}
