// Job control: SIGSTOP, SIGTSTP and SIGCONT as the parent sees them through waitpid, a SIGCONT
// handler, a stopped child killed, and a sleep that a stop does not cut short.
#include "check.h"
#include <time.h>

static volatile int continued;
static void on_continue(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    continued++;
}

// A state that the child leaves by itself can be overtaken by the next one, so `continued` is
// asked for only where the child stays in it.
static int next_state(pid_t child, int also) {
    int status;
    CHECK_EQ(waitpid(child, &status, WUNTRACED | also), child);
    if (WIFSTOPPED(status)) printf("stopped by %d\n", WSTOPSIG(status));
    else if (WIFCONTINUED(status)) puts("continued");
    else if (WIFEXITED(status)) printf("exited with %d\n", WEXITSTATUS(status));
    else printf("killed by %d\n", WTERMSIG(status));
    return status;
}

int main(void) {
    pid_t child = fork();
    if (child == 0) {
        on_signal(SIGCONT, on_continue, 0);
        raise(SIGSTOP);
        CHECK_EQ(continued, 1);
        raise(SIGTSTP);
        CHECK_EQ(continued, 2);
        kill(getpid(), SIGTTIN);
        _exit(10 + continued);
    }
    for (int i = 0; i < 3; i++) {
        next_state(child, 0);
        CHECK_EQ(kill(child, SIGCONT), 0);
    }
    next_state(child, 0);

    // Stopped from outside while it spins without a system call.
    child = fork();
    if (child == 0)
        for (;;) {}
    CHECK_EQ(kill(child, SIGSTOP), 0);
    next_state(child, WCONTINUED);
    CHECK_EQ(kill(child, SIGCONT), 0);
    next_state(child, WCONTINUED);
    CHECK_EQ(kill(child, SIGSTOP), 0);
    next_state(child, WCONTINUED);
    CHECK_EQ(kill(child, SIGKILL), 0);
    next_state(child, WCONTINUED);

    // A relative sleep is restarted with what is left of it.
    child = fork();
    if (child == 0) {
        struct timespec request = {0, 300000000};
        _exit(nanosleep(&request, NULL) == 0 ? 0 : 1);
    }
    usleep(50000);
    CHECK_EQ(kill(child, SIGSTOP), 0);
    next_state(child, 0);
    CHECK_EQ(kill(child, SIGCONT), 0);
    next_state(child, 0);
}
