// Sixty-four threads alive at once, all meeting at barriers, each with its own stack and identity.
// build: -pthread
#include "check.h"
#include <pthread.h>

#define THREADS 64
static pthread_barrier_t barrier;
static int tids[THREADS];
static long cells[THREADS];

static void *work(void *argument) {
    long self = (long)argument;
    tids[self] = gettid();
    for (int round = 0; round < 10; round++) {
        cells[self] = self + round;
        pthread_barrier_wait(&barrier);
        CHECK_EQ(cells[(self + 1) % THREADS], (self + 1) % THREADS + round);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void) {
    pthread_barrier_init(&barrier, NULL, THREADS);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK(tids[i] != getpid());
        for (int j = 0; j < i; j++) CHECK(tids[i] != tids[j]);
    }
    puts("64 distinct threads");
}
