// abort: its handler runs, returns, and the process still dies of SIGABRT, though it was blocked.
// signal: SIGABRT
#include "check.h"

static void handler(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    if (number == SIGABRT && write(1, "handler\n", 8) != 8) _exit(1);
}

int main(void) {
    on_signal(SIGABRT, handler, 0);
    sigset_t set;
    sigfillset(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    abort();
}
