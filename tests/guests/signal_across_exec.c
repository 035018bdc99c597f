// What execve keeps of signals: ignored ones, the mask and pending signals; handlers become
// the default, the alternate stack is gone.
#include "check.h"

static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
}

static void is(int number, void (*expected)(int), const char *name) {
    struct sigaction action;
    CHECK_EQ(sigaction(number, NULL, &action), 0);
    CHECK(action.sa_handler == expected);
    printf("%s: %s\n", name, expected == SIG_IGN ? "ignored" : "default");
}

int main(int argc, char **argv) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGRTMIN);
    if (argc > 1) {
        is(SIGUSR1, SIG_IGN, "usr1");
        is(SIGCHLD, SIG_IGN, "chld");
        is(SIGUSR2, SIG_DFL, "usr2");
        is(SIGSEGV, SIG_DFL, "segv");
        sigset_t mask, pending;
        sigprocmask(SIG_BLOCK, NULL, &mask);
        CHECK(sigismember(&mask, SIGHUP) && sigismember(&mask, SIGRTMIN) && !sigismember(&mask, SIGINT));
        sigpending(&pending);
        CHECK(sigismember(&pending, SIGHUP));
        siginfo_t info;
        CHECK_EQ(sigwaitinfo(&set, &info), SIGHUP);
        CHECK_EQ(sigwaitinfo(&set, &info), SIGRTMIN);
        CHECK_EQ(info.si_value.sival_int, 31);
        stack_t stack;
        CHECK_EQ(sigaltstack(NULL, &stack), 0);
        CHECK_EQ(stack.ss_flags, SS_DISABLE);
        raise(SIGUSR1);
        puts("mask and pending signals kept");
        return 0;
    }
    signal(SIGUSR1, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    on_signal(SIGUSR2, handler, SA_ONSTACK);
    on_signal(SIGSEGV, handler, 0);
    static char stack[65536];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    CHECK_EQ(sigaltstack(&alternate, NULL), 0);
    CHECK_EQ(sigprocmask(SIG_BLOCK, &set, NULL), 0);
    raise(SIGHUP);
    CHECK_EQ(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 31}), 0);
    execl(argv[0], argv[0], "again", NULL);
    check_failed("exec failed\n");
}
