// Who has which alternate stack: threads start without one, a forked child keeps its parent's,
// leaving a handler with siglongjmp frees it for the next signal.
// build: -pthread
#include "check.h"
#include <pthread.h>
#include <setjmp.h>

static char stack[65536] __attribute__((aligned(16)));
static sigjmp_buf recover;
static volatile int runs;

static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    char here;
    CHECK(&here > stack && &here < stack + sizeof stack);
    runs++;
    siglongjmp(recover, 1);
}

static int flags_now(void) {
    stack_t now;
    CHECK_EQ(sigaltstack(NULL, &now), 0);
    return now.ss_flags;
}

static void *in_thread(void *unused) {
    (void)unused;
    return (void *)(long)flags_now();
}

int main(void) {
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    CHECK_EQ(sigaltstack(&alternate, NULL), 0);
    on_signal(SIGUSR1, handler, SA_ONSTACK);
    for (volatile int i = 0; i < 500; i++) {
        if (sigsetjmp(recover, 1) == 0) raise(SIGUSR1);
        CHECK_EQ(flags_now(), 0);
    }
    printf("%d runs from the top of the stack\n", runs);
    pthread_t thread;
    void *flags;
    CHECK_EQ(pthread_create(&thread, NULL, in_thread, NULL), 0);
    pthread_join(thread, &flags);
    printf("thread: %ld\n", (long)flags);
    pid_t child = fork();
    if (child == 0) {
        if (sigsetjmp(recover, 1) == 0) raise(SIGUSR1);
        _exit(flags_now() == 0 && runs == 501 ? 0 : 1);
    }
    printf("forked: %d\n", exit_code_of(child));
    alternate.ss_flags = SS_DISABLE;
    CHECK_EQ(sigaltstack(&alternate, NULL), 0);
    CHECK_EQ(flags_now(), SS_DISABLE);
}
