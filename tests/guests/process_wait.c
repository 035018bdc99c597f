// waitpid, waitid, wait4: options, groups, statuses, errors and process descriptors.
#include "check.h"
#include <poll.h>
#include <sys/resource.h>
#ifndef P_PIDFD
#define P_PIDFD 3
#endif

int main(void) {
    int status;
    CHECK_FAILS(waitpid(-1, &status, 0), ECHILD);
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(ends[1]);
        CHECK_EQ(read(ends[0], &byte, 1), 0);
        _exit(9);
    }
    close(ends[0]);
    status = 0x5555;
    struct rusage usage;
    memset(&usage, 1, sizeof usage);
    CHECK_EQ(wait4(child, &status, WNOHANG, &usage), 0);
    CHECK(status == 0x5555 && usage.ru_nswap == 0x101010101010101);
    siginfo_t info;
    memset(&info, 1, sizeof info);
    CHECK_EQ(waitid(P_PID, child, &info, WEXITED | WNOHANG), 0);
    CHECK(info.si_pid == 0 && info.si_signo == 0 && info.si_status == 0);
    memset(&info, 1, sizeof info);
    CHECK_FAILS(waitid(P_PID, getpid(), &info, WEXITED), ECHILD);
    CHECK_FAILS(waitid(P_PID, child, &info, 0), EINVAL);
    CHECK_FAILS(waitpid(child, (int *)8, WNOHANG | 0x10000), EINVAL);
    int descriptor = (int)syscall(SYS_pidfd_open, child, 0);
    CHECK(descriptor >= 0);
    struct pollfd entry = {.fd = descriptor, .events = POLLIN};
    CHECK_EQ(poll(&entry, 1, 0), 0);
    close(ends[1]);
    CHECK_EQ(poll(&entry, 1, 20000), 1);
    CHECK_EQ(waitid(P_PIDFD, descriptor, &info, WEXITED | WNOWAIT), 0);
    CHECK_EQ(info.si_pid, child);
    CHECK_EQ(info.si_status, 9);
    CHECK_EQ(info.si_code, CLD_EXITED);
    CHECK_EQ(wait4(child, &status, 0, &usage), child);
    CHECK_EQ(WEXITSTATUS(status), 9);
    CHECK_FAILS(waitpid(child, &status, 0), ECHILD);
    close(descriptor);
    puts("left waitable, then reaped");

    pid_t in_group = fork();
    if (in_group == 0) {
        setpgid(0, 0);
        _exit(1);
    }
    setpgid(in_group, in_group);
    pid_t outside = fork();
    if (outside == 0) _exit(2);
    CHECK_EQ(waitpid(-in_group, &status, 0), in_group);
    CHECK_FAILS(waitpid(-in_group, &status, 0), ECHILD);
    CHECK_EQ(waitpid(0, &status, 0), outside);
    puts("waited by group");
    child = fork();
    if (child == 0)
        for (;;) {}
    CHECK_EQ(kill(child, SIGINT), 0);
    CHECK_EQ(wait(&status), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    CHECK_FAILS(waitpid(-1, &status, 0x1000000), EINVAL);
    CHECK_FAILS(waitid(77, 0, &info, WEXITED), EINVAL);
    puts("errors as documented");
}
