// brk: grows, shrinks, keeps and forgets contents as it should, stops at what lies above it.
#include "check.h"
#include <sys/resource.h>

int main(void) {
    char *start = sbrk(0);
    CHECK(start != (char *)-1);
    CHECK(sbrk(100000) == start);
    memset(start, 7, 100000);
    CHECK(sbrk(0) == start + 100000);
    CHECK_EQ(brk(start + 20000), 0);
    CHECK(sbrk(0) == start + 20000);
    CHECK_EQ(start[19999], 7);
    CHECK_EQ(brk(start + 100000), 0);
    CHECK_EQ(start[19999], 7);
    // Pages that were given back come again as zeros.
    char *page = (char *)(((long)start + 20000 + 4095) & -4096);
    for (char *at = page; at < start + 100000; at++) CHECK_EQ(*at, 0);
    puts("grown, shrunk, grown");
    for (int i = 0; i < 200; i++) {
        CHECK(sbrk(50000) != (void *)-1);
        *((char *)sbrk(0) - 1) = 1;
        CHECK(sbrk(-30000) != (void *)-1);
    }
    printf("moved by %ld\n", (long)((char *)sbrk(0) - start));
    // The raw call answers with the break it leaves: a refusal changes nothing.
    long now = (long)sbrk(0);
    CHECK_EQ(syscall(SYS_brk, 0), now);
    CHECK_EQ(syscall(SYS_brk, 0x7fffffffffff), now);
    CHECK_EQ(syscall(SYS_brk, now + 4096), now + 4096);
    CHECK_EQ(syscall(SYS_brk, now), now);
    struct rlimit limit = {1 << 20, RLIM_INFINITY};
    CHECK_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
    CHECK(sbrk(64 << 20) == (void *)-1);
    CHECK_EQ(errno, ENOMEM);
    puts("limits kept");
}
