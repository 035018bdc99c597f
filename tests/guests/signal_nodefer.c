// SA_NODEFER: a handler may be interrupted by its own signal.
#include "check.h"

static volatile int depth, deepest;

static void handler(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    CHECK(!sigismember(&mask, number));
    depth++;
    if (depth > deepest) deepest = depth;
    if (depth < 20) raise(number);
    depth--;
}

int main(void) {
    on_signal(SIGUSR1, handler, SA_NODEFER);
    raise(SIGUSR1);
    printf("depth %d\n", deepest);
    CHECK_EQ(deepest, 20);
    CHECK_EQ(depth, 0);
}
