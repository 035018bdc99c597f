// Mutexes of each kind under contention: plain, recursive, error-checking, timed, with priority
// inheritance.
// build: -pthread
#include "check.h"
#include <pthread.h>
#include <time.h>

static pthread_mutex_t mutex;
static long counter;

static void *add(void *unused) {
    (void)unused;
    for (int i = 0; i < 20000; i++) {
        pthread_mutex_lock(&mutex);
        counter++;
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void contend(const char *name, int type, int protocol) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    CHECK_EQ(pthread_mutexattr_settype(&attributes, type), 0);
    CHECK_EQ(pthread_mutexattr_setprotocol(&attributes, protocol), 0);
    CHECK_EQ(pthread_mutex_init(&mutex, &attributes), 0);
    counter = 0;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK_EQ(pthread_create(&threads[i], NULL, add, NULL), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    printf("%s: %ld\n", name, counter);
    pthread_mutex_destroy(&mutex);
}

static void *try_lock(void *unused) {
    (void)unused;
    CHECK_EQ(pthread_mutex_trylock(&mutex), EBUSY);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20000000;
    if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
    CHECK_EQ(pthread_mutex_timedlock(&mutex, &until), ETIMEDOUT);
    CHECK_EQ(pthread_mutex_unlock(&mutex), EPERM);
    return NULL;
}

int main(void) {
    contend("normal", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE);
    contend("recursive", PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE);
    contend("error checking", PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE);
    contend("adaptive", PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_PRIO_NONE);
    contend("inheriting", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT);

    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&mutex, &attributes);
    pthread_mutex_lock(&mutex);
    CHECK_EQ(pthread_mutex_lock(&mutex), EDEADLK);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, try_lock, NULL), 0);
    pthread_join(thread, NULL);
    puts("busy, timed out, not owner");
}
