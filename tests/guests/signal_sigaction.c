// sigaction: what it returns, what it refuses, and what it leaves out.
#include "check.h"

static void first(int number) { (void)number; }
static void second(int number, siginfo_t *info, void *context) { (void)number, (void)info, (void)context; }

struct kernel_action {
    void *handler;
    unsigned long flags;
    void *restorer;
    unsigned long mask;
};

int main(void) {
    struct sigaction action = {.sa_handler = first, .sa_flags = SA_RESTART}, old;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGTERM);
    sigaddset(&action.sa_mask, SIGKILL);
    CHECK_EQ(sigaction(SIGUSR1, &action, &old), 0);
    CHECK(old.sa_handler == SIG_DFL);
    on_signal(SIGUSR1, second, SA_ONSTACK | SA_NODEFER);
    CHECK_EQ(sigaction(SIGUSR1, &action, &old), 0);
    CHECK(old.sa_sigaction == second);
    CHECK_EQ(old.sa_flags & ~0x04000000, SA_SIGINFO | SA_ONSTACK | SA_NODEFER);
    CHECK_EQ(sigaction(SIGUSR1, NULL, &old), 0);
    CHECK(old.sa_handler == first);
    CHECK(sigismember(&old.sa_mask, SIGTERM));
    CHECK(!sigismember(&old.sa_mask, SIGKILL));

    // Without the C library: the restorer is returned as it was given.
    struct kernel_action raw = {(void *)second, 0x04000000 | SA_SIGINFO, (void *)0x123456, 1ul << 20}, got;
    CHECK_EQ(syscall(SYS_rt_sigaction, SIGUSR2, &raw, NULL, 8L), 0);
    CHECK_EQ(syscall(SYS_rt_sigaction, SIGUSR2, NULL, &got, 8L), 0);
    CHECK_EQ(memcmp(&raw, &got, sizeof raw), 0);

    CHECK_FAILS(sigaction(SIGKILL, &action, NULL), EINVAL);
    CHECK_FAILS(sigaction(SIGSTOP, &action, NULL), EINVAL);
    CHECK_EQ(sigaction(SIGKILL, NULL, &old), 0);
    CHECK_FAILS(syscall(SYS_rt_sigaction, 65, &raw, NULL, 8L), EINVAL);
    CHECK_FAILS(syscall(SYS_rt_sigaction, 0, &raw, NULL, 8L), EINVAL);
    CHECK_FAILS(syscall(SYS_rt_sigaction, SIGUSR1, &raw, NULL, 4L), EINVAL);
    CHECK_FAILS(syscall(SYS_rt_sigaction, SIGUSR1, 1L, NULL, 8L), EFAULT);
    CHECK_EQ(syscall(SYS_rt_sigaction, 64, &raw, NULL, 8L), 0);
    puts("sigaction as documented");
}
