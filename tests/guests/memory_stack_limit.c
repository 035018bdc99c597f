// A larger stack limit, set before exec: the new program can use it; an unlimited one works too.
#include "check.h"
#include <sys/resource.h>

static volatile int no_limit = -1;
__attribute__((noinline)) static long recurse(long depth) {
    volatile char space[4000];
    space[0] = space[3999] = (char)depth;
    if (depth == no_limit || depth == 0) return 0;
    return recurse(depth - 1) + 1 + (space[0] != space[3999]);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        struct rlimit limit;
        CHECK_EQ(getrlimit(RLIMIT_STACK, &limit), 0);
        if (limit.rlim_cur == RLIM_INFINITY) printf("unlimited: ");
        else printf("%lu MiB: ", (unsigned long)limit.rlim_cur >> 20);
        printf("%ld frames\n", recurse(atoi(argv[1])));
        return 0;
    }
    const struct { rlim_t limit; const char *depth; } cases[] = {
        {64 << 20, "15000"}, {1 << 20, "200"}, {RLIM_INFINITY, "20000"}};
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            struct rlimit limit;
            CHECK_EQ(getrlimit(RLIMIT_STACK, &limit), 0);
            limit.rlim_cur = cases[i].limit;
            CHECK_EQ(setrlimit(RLIMIT_STACK, &limit), 0);
            execl(argv[0], argv[0], cases[i].depth, NULL);
            _exit(1);
        }
        CHECK_EQ(exit_code_of(child), 0);
    }
    // Raised in a running program, the main stack may grow further at once.
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_STACK, &limit), 0);
    limit.rlim_cur = 32 << 20;
    CHECK_EQ(setrlimit(RLIMIT_STACK, &limit), 0);
    printf("raised: %ld frames\n", recurse(7000));
}
