// Signals during futex waits: a raw wait with a timeout fails with EINTR, without one it is
// restarted; mutexes, semaphores and condition variables stay right.
// build: -pthread
#include "check.h"
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/time.h>
#include <time.h>

static volatile int signals;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    signals++;
}

static int word;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static volatile int go;

static void *waker(void *unused) {
    (void)unused;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    while (signals < 10) usleep(1000);
    __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &word, FUTEX_WAKE, 1);
    while (signals < 20) usleep(1000);
    pthread_mutex_lock(&mutex);
    go = 1;
    pthread_cond_signal(&cond);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

int main(void) {
    on_signal(SIGALRM, handler, SA_RESTART);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, waker, NULL), 0);
    struct itimerval timer = {{0, 3000}, {0, 3000}}, off = {{0, 0}, {0, 0}};
    CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);

    while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == 0) {
        long result = syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL);
        CHECK(result == 0 || errno == EAGAIN);
    }
    CHECK(signals >= 10);
    puts("restarted until woken");

    pthread_mutex_lock(&mutex);
    while (!go) pthread_cond_wait(&cond, &mutex);
    pthread_mutex_unlock(&mutex);
    CHECK(signals >= 20);
    puts("condition wait survived signals");
    pthread_join(thread, NULL);

    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    on_signal(SIGALRM, handler, 0);
    CHECK_FAILS(sem_wait(&semaphore), EINTR);
    word = 0;
    struct timespec relative = {100, 0};
    CHECK_FAILS(syscall(SYS_futex, &word, FUTEX_WAIT, 0, &relative), EINTR);
    CHECK_EQ(setitimer(ITIMER_REAL, &off, NULL), 0);
    puts("EINTR without SA_RESTART");
}
