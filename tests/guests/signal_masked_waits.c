// ppoll, pselect and epoll_pwait with a mask: a signal that is blocked outside and pending, or
// comes later, interrupts them; the old mask is back afterwards. No wakeup may be lost.
// build: -pthread
#include "check.h"
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>

static volatile int handled;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    handled++;
}

static int epoll;
static sigset_t open_mask;

static int wait_masked(int how) {
    struct epoll_event event;
    switch (how) {
    case 0: return ppoll(NULL, 0, NULL, &open_mask);
    case 1: return pselect(0, NULL, NULL, NULL, NULL, &open_mask);
    default: return epoll_pwait(epoll, &event, 1, -1, &open_mask);
    }
}

static pthread_t main_thread;
static volatile int wanted;
static void *sender(void *unused) {
    (void)unused;
    for (int sent = 0; sent < 900; sent++) {
        while (__atomic_load_n(&wanted, __ATOMIC_ACQUIRE) <= sent) sched_yield();
        CHECK_EQ(pthread_kill(main_thread, SIGUSR1), 0);
    }
    return NULL;
}

int main(void) {
    on_signal(SIGUSR1, handler, SA_RESTART);
    sigset_t block, now;
    sigemptyset(&block);
    sigaddset(&block, SIGUSR1);
    CHECK_EQ(sigprocmask(SIG_BLOCK, &block, &open_mask), 0);
    epoll = epoll_create1(0);
    for (int how = 0; how < 3; how++) {
        raise(SIGUSR1);
        CHECK_EQ(handled, how);
        CHECK_FAILS(wait_masked(how), EINTR);
        CHECK_EQ(handled, how + 1);
        sigprocmask(SIG_BLOCK, NULL, &now);
        CHECK(sigismember(&now, SIGUSR1));
    }
    puts("pending signals taken");

    main_thread = pthread_self();
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, sender, NULL), 0);
    for (int round = 0; round < 900; round++) {
        int before = handled;
        __atomic_store_n(&wanted, round + 1, __ATOMIC_RELEASE);
        // A short walk, so that the signal hits another moment each time.
        for (volatile int i = 0; i < round % 97 * 10; i++) {}
        CHECK_FAILS(wait_masked(round % 3), EINTR);
        CHECK_EQ(handled, before + 1);
    }
    pthread_join(thread, NULL);
    puts("900 signals, none lost");
}
