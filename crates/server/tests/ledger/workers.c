/* Threads that add to a counter, one by one. */

#include <pthread.h>
#include <stdio.h>

enum { WORKERS = 3, ROUNDS = 2000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
volatile long counter;
volatile long steps[WORKERS];

__attribute__((noinline)) static long mix(long value, long round)
{
    for (int i = 0; i < 20; i++)
        value = value * 31 + round;
    return value;
}

static void *work(void *argument)
{
    long number = (long)argument;
    for (long round = 0; round < ROUNDS; round++) {
        steps[number] = mix(steps[number], round);
        pthread_mutex_lock(&lock);
        counter++;
        pthread_mutex_unlock(&lock);
    }
    return 0;
}

int main(void)
{
    pthread_t threads[WORKERS];
    for (long number = 0; number < WORKERS; number++)
        pthread_create(&threads[number], 0, work, (void *)number);
    for (int number = 0; number < WORKERS; number++)
        pthread_join(threads[number], 0);
    printf("%ld\n", counter);
    return 0;
}
