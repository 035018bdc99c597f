// Handlers that never return: siglongjmp out of synchronous and asynchronous signals, many
// times, with the mask saved or not.
#include "check.h"
#include <setjmp.h>
#include <sys/time.h>

static sigjmp_buf recover;
static void handler(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    siglongjmp(recover, number);
}

int main(void) {
    on_signal(SIGUSR1, handler, 0);
    on_signal(SIGSEGV, handler, 0);
    on_signal(SIGALRM, handler, 0);
    volatile int jumps = 0;
    for (volatile int i = 0; i < 1000; i++) {
        int got = sigsetjmp(recover, 1);
        if (got == 0) {
            if (i % 2) raise(SIGUSR1);
            else *(volatile int *)16 = 0;
            check_failed("came back\n");
        }
        CHECK_EQ(got, i % 2 ? SIGUSR1 : SIGSEGV);
        jumps++;
    }
    printf("%d jumps\n", jumps);

    for (volatile int i = 0; i < 20; i++) {
        struct itimerval timer = {{0, 0}, {0, 1000}};
        if (sigsetjmp(recover, 1) == 0) {
            setitimer(ITIMER_REAL, &timer, NULL);
            for (;;) {}
        }
    }
    puts("20 loops left");

    // Without the mask the signal stays blocked, as it was in the handler.
    if (sigsetjmp(recover, 0) == 0) raise(SIGUSR1);
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    CHECK(sigismember(&now, SIGUSR1));
    puts("mask kept");
}
