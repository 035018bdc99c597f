// SA_RESETHAND: the second signal takes the default action; the process dies of it.
// signal: SIGUSR1
#include "check.h"

static volatile int count;

static void handler(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    struct sigaction now;
    CHECK_EQ(sigaction(number, NULL, &now), 0);
    CHECK(now.sa_handler == SIG_DFL);
    count++;
}

int main(void) {
    on_signal(SIGUSR1, handler, SA_RESETHAND);
    raise(SIGUSR1);
    printf("handled %d\n", count);
    raise(SIGUSR1);
    puts("not reached");
}
