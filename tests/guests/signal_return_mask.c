// A handler that changes the mask in its context: it holds after the handler returns.
#include "check.h"

static volatile int usr2;
static void handler(int number, siginfo_t *info, void *context) {
    (void)info;
    if (number == SIGUSR2) {
        usr2++;
        return;
    }
    ucontext_t *uc = context;
    if (sigismember(&uc->uc_sigmask, SIGUSR2)) sigdelset(&uc->uc_sigmask, SIGUSR2);
    else sigaddset(&uc->uc_sigmask, SIGUSR2);
    sigaddset(&uc->uc_sigmask, SIGKILL);
}

int main(void) {
    on_signal(SIGUSR1, handler, 0);
    on_signal(SIGUSR2, handler, 0);
    sigset_t mask;
    raise(SIGUSR1);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    CHECK(sigismember(&mask, SIGUSR2) && !sigismember(&mask, SIGKILL) && !sigismember(&mask, SIGUSR1));
    raise(SIGUSR2);
    CHECK_EQ(usr2, 0);
    // Opened again by a handler's return: delivered at that very moment.
    raise(SIGUSR1);
    CHECK_EQ(usr2, 1);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    CHECK(!sigismember(&mask, SIGUSR2));
    puts("the mask came from the context");
}
