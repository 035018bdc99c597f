// sigwaitinfo, sigtimedwait and sigwait: take pending and arriving signals without a handler.
#include "check.h"
#include <time.h>

static volatile int handled;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    handled++;
}

int main(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGRTMIN + 3);
    CHECK_EQ(sigprocmask(SIG_BLOCK, &set, NULL), 0);
    on_signal(SIGUSR1, handler, 0);

    siginfo_t info;
    struct timespec no_time = {0, 0}, little = {0, 20000000};
    CHECK_FAILS(sigtimedwait(&set, &info, &no_time), EAGAIN);
    CHECK_FAILS(sigtimedwait(&set, &info, &little), EAGAIN);

    union sigval value = {.sival_int = 4711};
    CHECK_EQ(sigqueue(getpid(), SIGRTMIN + 3, value), 0);
    raise(SIGUSR2);
    CHECK_EQ(kill(getpid(), SIGUSR1), 0);
    int order[3];
    for (int i = 0; i < 3; i++) {
        order[i] = sigwaitinfo(&set, &info);
        CHECK_EQ(info.si_signo, order[i]);
        CHECK_EQ(info.si_pid, getpid());
        printf("%s, code %d\n",
               order[i] == SIGUSR1 ? "usr1" : order[i] == SIGUSR2 ? "usr2" : "realtime", info.si_code);
        if (order[i] == SIGRTMIN + 3) CHECK_EQ(info.si_value.sival_int, 4711);
    }

    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        usleep(20000);
        kill(parent, SIGUSR2);
        _exit(0);
    }
    int number;
    CHECK_EQ(sigwait(&set, &number), 0);
    CHECK_EQ(number, SIGUSR2);
    CHECK_EQ(exit_code_of(child), 0);
    CHECK_EQ(handled, 0);
    CHECK_FAILS(syscall(SYS_rt_sigtimedwait, &set, &info, &no_time, 4L), EINVAL);
    struct timespec bad = {0, 2000000000};
    CHECK_FAILS(sigtimedwait(&set, &info, &bad), EINVAL);
    puts("no handler ran");
}
