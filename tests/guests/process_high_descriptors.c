// The highest descriptor numbers belong to the program like all others: it can use, inspect and
// close every one of them up to its limit, and go on.
#include "check.h"
#include <fcntl.h>
#include <sys/resource.h>

int main(void) {
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int top = limit.rlim_cur > 4096 ? 4096 : (int)limit.rlim_cur;
    limit.rlim_cur = top;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    closefrom(3);
    int null = open("/dev/null", O_RDWR);
    CHECK_EQ(null, 3);
    for (int number = 4; number < top; number++) CHECK_EQ(dup2(null, number), number);
    CHECK_FAILS(dup2(null, top), EBADF);
    CHECK_FAILS(open("/dev/null", O_RDWR), EMFILE);
    CHECK_EQ(write(top - 1, "x", 1), 1);
    char path[40], target[20] = "";
    sprintf(path, "/proc/self/fd/%d", top - 1);
    CHECK_EQ(readlink(path, target, sizeof target), 9);
    puts(target);
    // Nothing is left, yet processes, signals and new code still work.
    pid_t child = fork();
    if (child == 0) _exit(snprintf(NULL, 0, "%g", 2.5));
    printf("child %d\n", exit_code_of(child));
    for (int number = top - 1; number >= 4; number--) CHECK_EQ(close(number), 0);
    CHECK_FAILS(close(top - 1), EBADF);
    puts("all of them ours");
}
