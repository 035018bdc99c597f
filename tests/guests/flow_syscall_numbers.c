// System call numbers that do not exist: ENOSYS, without touching anything; x32 numbers, negative
// ones, numbers with high bits set.
#include "check.h"

static long raw(long number, long a, long b, long c) {
    long result;
    asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

int main(void) {
    const long unknown[] = {-1, 0x40000000 | 1, 0x40000000 | 39, 500, 999, 5000, 0x7fffffff, -2, 600, 400};
    for (int i = 0; i < 10; i++) CHECK_EQ(raw(unknown[i], 1, (long)"x", 1), -ENOSYS);
    puts("ten unknown numbers");
    // Only the low half of rax counts.
    CHECK_EQ(raw(0x1234567800000000 | SYS_getpid, 0, 0, 0), getpid());
    CHECK_EQ(raw(SYS_getpid, -1, -1, -1), getpid());
    CHECK_EQ(raw(SYS_write, 1, (long)"written directly\n", 17), 17);
    CHECK_EQ(raw(SYS_write, 99, 0, 0), -EBADF);
}
