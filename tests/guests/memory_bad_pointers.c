// Bad pointers given to system calls: EFAULT, nothing half done, no signal; also pointers that
// end at an unmapped page and into read-only memory.
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>

int main(void) {
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    CHECK_EQ(munmap(page + 4096, 4096), 0);
    char *bad = page + 4096, *edge = page + 4090, *kernel = (char *)0xffff800000000000;
    int zero = open("/dev/zero", O_RDONLY), ends[2];
    CHECK_EQ(pipe(ends), 0);

    CHECK_FAILS(write(ends[1], bad, 10), EFAULT);
    CHECK_FAILS(read(zero, bad, 10), EFAULT);
    CHECK_FAILS(read(zero, kernel, 10), EFAULT);
    CHECK_EQ(write(ends[1], edge, 6), 6);
    char sink[16];
    CHECK_EQ(read(ends[0], sink, 16), 6);
    CHECK_FAILS(open(bad, O_RDONLY), EFAULT);
    CHECK_FAILS(syscall(SYS_stat, "/", bad), EFAULT);
    CHECK_FAILS(syscall(SYS_pipe, bad), EFAULT);
    CHECK_FAILS(syscall(SYS_gettimeofday, bad, NULL), EFAULT);
    CHECK_FAILS(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, bad), EFAULT);
    CHECK_FAILS(syscall(SYS_nanosleep, bad, NULL), EFAULT);
    CHECK_FAILS(syscall(SYS_uname, bad), EFAULT);
    CHECK_FAILS(syscall(SYS_rt_sigaction, SIGUSR1, bad, NULL, 8L), EFAULT);
    CHECK_FAILS(syscall(SYS_rt_sigpending, bad, 8L), EFAULT);
    CHECK_FAILS(syscall(SYS_sigaltstack, bad, NULL), EFAULT);
    CHECK_FAILS(syscall(SYS_poll, bad, 3L, 0L), EFAULT);
    CHECK_FAILS(syscall(SYS_getcwd, bad, 100L), EFAULT);
    CHECK_FAILS(syscall(SYS_readlink, "/proc/self/exe", bad, 100L), EFAULT);
    CHECK_FAILS(syscall(SYS_readv, zero, bad, 1L), EFAULT);
    CHECK_FAILS(syscall(SYS_wait4, -1L, bad, 0L, NULL), ECHILD);
    CHECK_FAILS(syscall(SYS_getrlimit, 3L, bad), EFAULT);
    CHECK_FAILS(syscall(SYS_futex, bad, 0L, 0L, NULL), EFAULT);
    // A path that is cut off by the page's end.
    memset(page, 'a', 4096);
    CHECK_FAILS(open(edge, O_RDONLY), EFAULT);
    CHECK_EQ(mprotect(page, 4096, PROT_READ), 0);
    CHECK_FAILS(read(zero, page, 10), EFAULT);
    CHECK_EQ(page[0], 'a');
    pid_t child = fork();
    if (child == 0) _exit(2);
    CHECK_FAILS(waitpid(child, (int *)bad, 0), EFAULT);
    puts("EFAULT everywhere");
}
