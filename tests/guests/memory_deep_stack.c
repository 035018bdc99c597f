// A recursion through six megabytes of stack, several times, also in a child; the kernel grows it.
// build: -O2
#include "check.h"

__attribute__((noinline)) static long recurse(long depth) {
    volatile char space[480];
    space[0] = (char)depth;
    space[479] = (char)(depth >> 8);
    if (depth == 0) return 1;
    long below = recurse(depth - 1);
    CHECK_EQ((unsigned char)space[0], depth & 255);
    CHECK_EQ((unsigned char)space[479], depth >> 8 & 255);
    return below + 1;
}

__attribute__((noinline)) static int large_frame(void) {
    // Touches the far end first, as large frames without probes do.
    volatile char space[3 << 20];
    space[0] = 1;
    space[sizeof space - 1] = 2;
    return space[0] + space[sizeof space - 1];
}

int main(void) {
    printf("%d\n", large_frame());
    for (int i = 0; i < 3; i++) printf("%ld frames\n", recurse(12000));
    pid_t child = fork();
    if (child == 0) _exit(recurse(12500) == 12501 ? 16 : 1);
    printf("child %d\n", exit_code_of(child));
}
