// Sixty-four threads that fight for a mutex, a spinlock, a condition variable and each other's turn: all of
// them get on, and no update is lost.
// build: -pthread
#include "check.h"
#include <pthread.h>

#define THREADS 64
#define ROUNDS 50

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_spinlock_t spinlock;
static long under_mutex, under_spinlock, under_own_lock;

static void *lock(void *unused) {
    (void)unused;
    static volatile char own_lock;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_mutex_lock(&mutex);
        under_mutex++;
        pthread_mutex_unlock(&mutex);
        pthread_spin_lock(&spinlock);
        under_spinlock++;
        pthread_spin_unlock(&spinlock);
        while (__atomic_test_and_set(&own_lock, __ATOMIC_ACQUIRE)) {}
        under_own_lock++;
        __atomic_clear(&own_lock, __ATOMIC_RELEASE);
    }
    return NULL;
}

// A bounded buffer: half of the threads put numbers in, the other half take them out.
#define ROOM 3
static pthread_mutex_t buffer_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static long buffer[ROOM], held, taken;

static void *exchange(void *argument) {
    long self = (long)argument;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_mutex_lock(&buffer_mutex);
        if (self % 2) {
            while (held == ROOM) pthread_cond_wait(&not_full, &buffer_mutex);
            buffer[held++] = self;
            pthread_cond_signal(&not_empty);
        } else {
            while (held == 0) pthread_cond_wait(&not_empty, &buffer_mutex);
            taken += buffer[--held];
            pthread_cond_broadcast(&not_full);
        }
        pthread_mutex_unlock(&buffer_mutex);
    }
    return NULL;
}

// Round and round in order, by waiting for a word to change without any help of the kernel. Few threads do
// it: natively, each turn takes as many time slices as there are threads.
#define TURNING 6
static volatile long turn;

static void *take_turns(void *argument) {
    long self = (long)argument;
    for (int round = 0; self < TURNING && round < 3; round++) {
        while (turn != round * TURNING + self) {}
        turn = turn + 1;
    }
    return NULL;
}

static void run(void *(*work)(void *)) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

int main(void) {
    CHECK_EQ(pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE), 0);
    run(lock);
    printf("locks %ld %ld %ld\n", under_mutex, under_spinlock, under_own_lock);
    run(exchange);
    printf("buffer %ld %ld\n", held, taken);
    run(take_turns);
    printf("turns %ld\n", turn);
}
