// madvise: DONTNEED gives zeros or the file's contents back; WIPEONFORK and DONTFORK show in the
// child; others are accepted.
#include "check.h"
#include <fcntl.h>
#include <setjmp.h>

static sigjmp_buf recover;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    siglongjmp(recover, 1);
}

int main(void) {
    on_signal(SIGSEGV, handler, 0);
    char *base = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED);
    memset(base, 9, 4 * 4096);
    CHECK_EQ(madvise(base + 4096, 4096, MADV_DONTNEED), 0);
    printf("%d %d %d\n", base[4095], base[4096], base[8192]);
    int file = open("/proc/self/exe", O_RDONLY);
    char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    map[1] = 'x';
    CHECK_EQ(madvise(map, 4096, MADV_DONTNEED), 0);
    printf("%.3s\n", map + 1);

    CHECK_EQ(madvise(base, 4096, MADV_WIPEONFORK), 0);
    CHECK_EQ(madvise(base + 8192, 4096, MADV_DONTFORK), 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK_EQ(base[0], 0);
        CHECK_EQ(base[3 * 4096], 9);
        if (sigsetjmp(recover, 1) == 0) {
            base[8192] = 1;
            _exit(1);
        }
        _exit(15);
    }
    printf("child %d\n", exit_code_of(child));
    CHECK_EQ(base[0], 9);
    CHECK_EQ(base[8192], 9);
    const int accepted[] = {MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_FREE, MADV_KEEPONFORK};
    for (int i = 0; i < 6; i++) CHECK_EQ(madvise(base, 4096, accepted[i]), 0);
    CHECK_FAILS(madvise(base + 1, 4096, MADV_NORMAL), EINVAL);
    CHECK_FAILS(madvise(base, 4096, 7777), EINVAL);
    CHECK_EQ(munmap(base + 4096, 4096), 0);
    CHECK_FAILS(madvise(base, 4 * 4096, MADV_NORMAL), ENOMEM);
}
