// sigprocmask: block, unblock, set; delivery on unblocking before the call returns; SIGKILL and
// SIGSTOP cannot be blocked; errors.
#include "check.h"

static volatile int count;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    count++;
}

int main(void) {
    on_signal(SIGUSR1, handler, 0);
    on_signal(SIGUSR2, handler, 0);
    sigset_t one, old, now, all;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    CHECK_EQ(sigprocmask(SIG_BLOCK, &one, &old), 0);
    CHECK(!sigismember(&old, SIGUSR1));
    for (int i = 0; i < 5; i++) raise(SIGUSR1);
    CHECK_EQ(count, 0);
    raise(SIGUSR2);
    CHECK_EQ(count, 1);
    sigset_t pending;
    CHECK_EQ(sigpending(&pending), 0);
    CHECK(sigismember(&pending, SIGUSR1) && !sigismember(&pending, SIGUSR2));
    CHECK_EQ(sigprocmask(SIG_UNBLOCK, &one, NULL), 0);
    CHECK_EQ(count, 2); // five raises, one delivery
    CHECK_EQ(sigpending(&pending), 0);
    CHECK(!sigismember(&pending, SIGUSR1));

    sigfillset(&all);
    CHECK_EQ(sigprocmask(SIG_SETMASK, &all, NULL), 0);
    CHECK_EQ(sigprocmask(SIG_SETMASK, NULL, &now), 0);
    CHECK(!sigismember(&now, SIGKILL) && !sigismember(&now, SIGSTOP));
    CHECK(sigismember(&now, SIGSEGV) && sigismember(&now, SIGRTMAX));
    CHECK_EQ(sigprocmask(SIG_SETMASK, &old, NULL), 0);

    CHECK_FAILS(syscall(SYS_rt_sigprocmask, 77, &one, NULL, 8L), EINVAL);
    CHECK_FAILS(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &one, NULL, 16L), EINVAL);
    CHECK_FAILS(syscall(SYS_rt_sigprocmask, SIG_BLOCK, 8L, NULL, 8L), EFAULT);

    // A pending signal that becomes ignored is dropped.
    CHECK_EQ(sigprocmask(SIG_BLOCK, &one, NULL), 0);
    raise(SIGUSR1);
    signal(SIGUSR1, SIG_IGN);
    CHECK_EQ(sigpending(&pending), 0);
    CHECK(!sigismember(&pending, SIGUSR1));
    CHECK_EQ(sigprocmask(SIG_UNBLOCK, &one, NULL), 0);
    printf("%d signals\n", count);
}
