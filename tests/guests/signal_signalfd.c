// signalfd: blocked signals are read as data, in order, with sender and value.
#include "check.h"
#include <poll.h>
#include <sys/signalfd.h>

int main(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGRTMIN + 1);
    sigaddset(&set, SIGCHLD);
    CHECK_EQ(sigprocmask(SIG_BLOCK, &set, NULL), 0);
    int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    CHECK(fd >= 0);
    struct signalfd_siginfo info[8];
    CHECK_FAILS(read(fd, info, sizeof info), EAGAIN);
    CHECK_FAILS(read(fd, info, 10), EINVAL);

    for (int i = 0; i < 3; i++) {
        union sigval value = {.sival_int = 10 + i};
        CHECK_EQ(sigqueue(getpid(), SIGRTMIN + 1, value), 0);
    }
    raise(SIGUSR1);
    ssize_t got = read(fd, info, sizeof info);
    CHECK_EQ(got, 4 * sizeof info[0]);
    CHECK_EQ(info[0].ssi_signo, SIGUSR1);
    CHECK_EQ(info[0].ssi_pid, getpid());
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(info[1 + i].ssi_signo, SIGRTMIN + 1);
        CHECK_EQ(info[1 + i].ssi_int, 10 + i);
        CHECK_EQ(info[1 + i].ssi_code, SI_QUEUE);
    }
    puts("four signals in one read");

    pid_t child = fork();
    if (child == 0) _exit(5);
    struct pollfd poll_entry = {.fd = fd, .events = POLLIN};
    CHECK_EQ(poll(&poll_entry, 1, 20000), 1);
    CHECK_EQ(read(fd, info, sizeof info), sizeof info[0]);
    CHECK_EQ(info[0].ssi_signo, SIGCHLD);
    CHECK_EQ(info[0].ssi_pid, child);
    printf("child's status %d, code %d\n", info[0].ssi_status, info[0].ssi_code);
    CHECK_EQ(exit_code_of(child), 5);
    close(fd);
}
