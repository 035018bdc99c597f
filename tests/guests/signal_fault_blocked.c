// A fault whose signal is blocked or ignored kills the process; a fault inside another signal's
// handler is handled.
#include "check.h"
#include <setjmp.h>
#include <sys/resource.h>

static sigjmp_buf recover;
static void segv(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    siglongjmp(recover, 1);
}
static volatile int inner;
static void usr1(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    if (sigsetjmp(recover, 1) == 0) *(volatile int *)0 = 0;
    inner++;
}
static void segv_again(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    *(volatile int *)8 = 0;
}

static void child_dies(const char *what, int variant) {
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGSEGV);
        if (variant == 0) sigprocmask(SIG_BLOCK, &set, NULL);
        if (variant == 1) signal(SIGSEGV, SIG_IGN);
        if (variant == 2) on_signal(SIGSEGV, segv_again, 0);
        *(volatile int *)0 = 0;
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status));
    printf("%s: killed by %d\n", what, WTERMSIG(status));
}

int main(void) {
    on_signal(SIGSEGV, segv, 0);
    on_signal(SIGUSR1, usr1, 0);
    raise(SIGUSR1);
    raise(SIGUSR1);
    printf("faults inside a handler: %d\n", inner);
    child_dies("blocked", 0);
    child_dies("ignored", 1);
    child_dies("in its own handler", 2);
    // A sent signal is only blocked, not fatal.
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGSEGV);
    puts("sent and blocked: alive");
}
