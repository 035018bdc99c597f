// A fault in one thread kills the whole process, whatever the others do.
// build: -pthread
// signal: SIGFPE
#include "check.h"
#include <pthread.h>

static pthread_barrier_t barrier;

static void *spin(void *unused) {
    (void)unused;
    pthread_barrier_wait(&barrier);
    for (;;) {}
    return NULL;
}

static void *sleep_long(void *unused) {
    (void)unused;
    pthread_barrier_wait(&barrier);
    for (;;) pause();
    return NULL;
}

static void *divide(void *zero) {
    pthread_barrier_wait(&barrier);
    puts("dividing");
    return (void *)(100 / *(volatile long *)zero);
}

int main(void) {
    static long zero;
    pthread_t threads[3];
    pthread_barrier_init(&barrier, NULL, 4);
    CHECK_EQ(pthread_create(&threads[0], NULL, spin, NULL), 0);
    CHECK_EQ(pthread_create(&threads[1], NULL, sleep_long, NULL), 0);
    CHECK_EQ(pthread_create(&threads[2], NULL, divide, &zero), 0);
    pthread_barrier_wait(&barrier);
    pthread_join(threads[0], NULL);
}
