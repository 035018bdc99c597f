// exit while other threads spin, sleep, wait and hold locks: the process ends at once.
// build: -pthread
// exit: 7
#include "check.h"
#include <pthread.h>
#include <semaphore.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t never;
static int started;

static void *work(void *argument) {
    __atomic_add_fetch(&started, 1, __ATOMIC_SEQ_CST);
    switch ((long)argument % 4) {
    case 0: for (;;) {}
    case 1: for (;;) pause();
    case 2: sem_wait(&never);
    default: pthread_mutex_lock(&mutex);
    }
    return NULL;
}

static void at_end(void) { puts("exit handler"); }

int main(void) {
    atexit(at_end);
    sem_init(&never, 0, 0);
    pthread_mutex_lock(&mutex);
    for (long i = 0; i < 12; i++) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, work, (void *)i), 0);
    }
    while (__atomic_load_n(&started, __ATOMIC_SEQ_CST) < 12) sched_yield();
    exit(7);
}
