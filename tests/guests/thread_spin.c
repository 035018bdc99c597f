// Threads that hand over by spinning on plain memory, without any system call: each must make
// progress while the others spin.
// build: -pthread
#include "check.h"
#include <pthread.h>

static volatile int turn;
static pthread_spinlock_t lock;
static long counter;

static void *hand_over(void *argument) {
    int self = (int)(long)argument;
    for (int i = 0; i < 100; i++) {
        // A yield now and then: with fewer processors than threads, pure spinning wastes slices.
        for (long spins = 1; turn != self; spins++)
            if (spins % 20000 == 0) sched_yield();
        turn = (self + 1) % 3;
    }
    return NULL;
}

static void *locked(void *unused) {
    (void)unused;
    for (int i = 0; i < 5000; i++) {
        pthread_spin_lock(&lock);
        counter++;
        pthread_spin_unlock(&lock);
    }
    return NULL;
}

static volatile int stop;
static void *spin_only(void *unused) {
    (void)unused;
    while (!stop) {}
    return NULL;
}

int main(void) {
    pthread_t threads[3];
    for (long i = 0; i < 3; i++) CHECK_EQ(pthread_create(&threads[i], NULL, hand_over, (void *)i), 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    printf("turn %d\n", turn);
    pthread_spin_init(&lock, 0);
    for (long i = 0; i < 3; i++) CHECK_EQ(pthread_create(&threads[i], NULL, locked, NULL), 0);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    printf("counter %ld\n", counter);
    for (long i = 0; i < 3; i++) CHECK_EQ(pthread_create(&threads[i], NULL, spin_only, NULL), 0);
    usleep(20000);
    stop = 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    puts("spinners stopped by a plain store");
}
