// RLIMIT_AS set by the program itself: allocations fail with ENOMEM, it goes on, and after the
// limit is lifted they work again.
#include "check.h"
#include <sys/resource.h>

static unsigned long virtual_size(void) {
    unsigned long pages;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK_EQ(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    return pages * 4096;
}

int main(void) {
    struct rlimit old, limit;
    CHECK_EQ(getrlimit(RLIMIT_AS, &old), 0);
    limit = old;
    limit.rlim_cur = virtual_size() + (64 << 20);
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    void *small = mmap(NULL, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(small != MAP_FAILED);
    CHECK_FAILS(mmap(NULL, 1ul << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), ENOMEM);
    CHECK(malloc(1ul << 30) == NULL);
    CHECK_EQ(errno, ENOMEM);
    memset(small, 1, 16 << 20);
    // New code is still run and new processes still start.
    pid_t child = fork();
    if (child == 0) _exit(snprintf(NULL, 0, "%f %s", 3.5, "text") == 13 ? 18 : 1);
    printf("child %d\n", exit_code_of(child));
    CHECK_EQ(setrlimit(RLIMIT_AS, &old), 0);
    void *large = mmap(NULL, 1ul << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(large != MAP_FAILED);
    puts("refused, then allowed");
}
