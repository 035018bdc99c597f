// pthread_kill reaches exactly the thread it names; each thread has its own mask and pending set.
// build: -pthread
#include "check.h"
#include <pthread.h>

#define THREADS 4
static __thread volatile int received;
static __thread int self;
static volatile int wrong;
static pthread_barrier_t ready, sent, counted;

static void handler(int number, siginfo_t *info, void *context) {
    (void)context;
    CHECK_EQ(info->si_code, SI_TKILL);
    if (number != SIGUSR1) wrong++;
    received++;
}

static void *work(void *argument) {
    self = (long)argument;
    sigset_t block, pending;
    sigemptyset(&block);
    sigaddset(&block, SIGUSR1);
    if (self == 2) pthread_sigmask(SIG_BLOCK, &block, NULL);
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&sent);
    // The sender is done; a signal already sent is delivered at the latest by the next call.
    sched_yield();
    sigpending(&pending);
    CHECK_EQ(sigismember(&pending, SIGUSR1), self == 2);
    if (self == 2) {
        CHECK_EQ(received, 0);
        pthread_sigmask(SIG_UNBLOCK, &block, NULL);
        CHECK_EQ(received, 1);
    }
    pthread_barrier_wait(&counted);
    return (void *)(long)received;
}

int main(void) {
    on_signal(SIGUSR1, handler, SA_RESTART);
    pthread_barrier_init(&ready, NULL, THREADS + 1);
    pthread_barrier_init(&sent, NULL, THREADS + 1);
    pthread_barrier_init(&counted, NULL, THREADS + 1);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    pthread_barrier_wait(&ready);
    CHECK_EQ(pthread_kill(threads[1], SIGUSR1), 0);
    CHECK_EQ(pthread_kill(threads[2], SIGUSR1), 0);
    pthread_barrier_wait(&sent);
    pthread_barrier_wait(&counted);
    for (int i = 0; i < THREADS; i++) {
        void *count;
        pthread_join(threads[i], &count);
        printf("thread %d got %ld\n", i, (long)count);
    }
    CHECK_EQ(received, 0);
    CHECK_EQ(wrong, 0);
}
