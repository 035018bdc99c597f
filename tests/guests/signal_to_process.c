// A signal for the process goes to a thread that does not block it; when all block it, it stays
// pending until one asks for it.
// build: -pthread
#include "check.h"
#include <pthread.h>

static volatile int handled;
static __thread volatile int here;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    here++;
    handled++;
}

static volatile int stop;
static void *blocked(void *unused) {
    (void)unused;
    while (!stop) usleep(1000);
    CHECK_EQ(here, 0);
    return NULL;
}

static void *open_spinner(void *unused) {
    (void)unused;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    while (here < 50) {}
    return NULL;
}

static void *waiter(void *set) {
    int number;
    CHECK_EQ(sigwait(set, &number), 0);
    return (void *)(long)number;
}

int main(void) {
    on_signal(SIGUSR1, handler, 0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_t spinner, others[3];
    for (int i = 0; i < 3; i++) CHECK_EQ(pthread_create(&others[i], NULL, blocked, NULL), 0);
    CHECK_EQ(pthread_create(&spinner, NULL, open_spinner, NULL), 0);
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(kill(getpid(), SIGUSR1), 0);
        while (handled <= i) usleep(100);
    }
    pthread_join(spinner, NULL);
    printf("spinner handled %d\n", handled);

    CHECK_EQ(kill(getpid(), SIGUSR1), 0);
    sigset_t pending;
    sigpending(&pending);
    CHECK(sigismember(&pending, SIGUSR1));
    CHECK_EQ(handled, 50);
    pthread_t taker;
    sigset_t first;
    sigemptyset(&first);
    sigaddset(&first, SIGUSR1);
    CHECK_EQ(pthread_create(&taker, NULL, waiter, &first), 0);
    void *number;
    pthread_join(taker, &number);
    printf("taken by sigwait: %d\n", (int)(long)number == SIGUSR1);

    sigset_t second;
    sigemptyset(&second);
    sigaddset(&second, SIGUSR2);
    CHECK_EQ(pthread_create(&taker, NULL, waiter, &second), 0);
    usleep(10000);
    CHECK_EQ(kill(getpid(), SIGUSR2), 0);
    pthread_join(taker, &number);
    printf("sigwait woken: %d\n", (int)(long)number == SIGUSR2);
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(others[i], NULL);
}
