// A bounded queue with two condition variables: nothing lost, nothing twice; timed waits expire.
// build: -pthread
#include "check.h"
#include <pthread.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static int queue[8], used, put_at, get_at;
static char seen[9000];

static void *produce(void *argument) {
    int base = (int)(long)argument * 3000;
    for (int i = 0; i < 3000; i++) {
        pthread_mutex_lock(&mutex);
        while (used == 8) pthread_cond_wait(&not_full, &mutex);
        queue[put_at++ % 8] = base + i;
        used++;
        pthread_cond_signal(&not_empty);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void *consume(void *unused) {
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&mutex);
        while (used == 0) pthread_cond_wait(&not_empty, &mutex);
        int item = queue[get_at++ % 8];
        used--;
        pthread_cond_broadcast(&not_full);
        pthread_mutex_unlock(&mutex);
        if (item < 0) return NULL;
        CHECK_EQ(__atomic_fetch_add(&seen[item], 1, __ATOMIC_RELAXED), 0);
    }
}

static void put_end(void) {
    pthread_mutex_lock(&mutex);
    while (used == 8) pthread_cond_wait(&not_full, &mutex);
    queue[put_at++ % 8] = -1;
    used++;
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&mutex);
}

int main(void) {
    pthread_t producers[3], consumers[2];
    for (long i = 0; i < 3; i++) CHECK_EQ(pthread_create(&producers[i], NULL, produce, (void *)i), 0);
    for (int i = 0; i < 2; i++) CHECK_EQ(pthread_create(&consumers[i], NULL, consume, NULL), 0);
    for (int i = 0; i < 3; i++) pthread_join(producers[i], NULL);
    for (int i = 0; i < 2; i++) put_end();
    for (int i = 0; i < 2; i++) pthread_join(consumers[i], NULL);
    int total = 0;
    for (int i = 0; i < 9000; i++) total += seen[i];
    printf("%d items\n", total);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec -= 1;
    pthread_mutex_lock(&mutex);
    CHECK_EQ(pthread_cond_timedwait(&not_empty, &mutex, &until), ETIMEDOUT);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 10000000;
    if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
    CHECK_EQ(pthread_cond_clockwait(&not_empty, &mutex, CLOCK_MONOTONIC, &until), ETIMEDOUT);
    puts("timed out twice");
}
