/* Threads with names that begin and take turns in a fixed order, a thread-local variable, a signal with a handler. */

#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { WORKERS = 3, ROUNDS = 50 };

static __thread int rounds;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t next = PTHREAD_COND_INITIALIZER;
static long begun;
static long turn = 1;
static long shared;
static volatile sig_atomic_t signals;

static void on_signal(int number)
{
    signals += number;
}

static void add(long value)
{
    pthread_mutex_lock(&lock);
    while (turn != value)
        pthread_cond_wait(&next, &lock);
    shared += value;
    turn = value % WORKERS + 1;
    pthread_cond_broadcast(&next);
    pthread_mutex_unlock(&lock);
}

static void begin(void)
{
    pthread_mutex_lock(&lock);
    begun++;
    pthread_cond_broadcast(&next);
    pthread_mutex_unlock(&lock);
}

static void await_begun(long count)
{
    pthread_mutex_lock(&lock);
    while (begun != count)
        pthread_cond_wait(&next, &lock);
    pthread_mutex_unlock(&lock);
}

static void *work(void *argument)
{
    long number = (long)argument;
    char name[16];
    snprintf(name, sizeof name, "worker-%ld", number);
    pthread_setname_np(pthread_self(), name);
    begin();
    for (int i = 0; i < ROUNDS; i++) {
        rounds++;
        add(number);
    }
    return NULL;
}

int main(void)
{
    pthread_t workers[WORKERS];
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    for (long i = 0; i < WORKERS; i++) {
        pthread_create(&workers[i], NULL, work, (void *)(i + 1));
        await_begun(i + 1);
    }
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    if (write(STDOUT_FILENO, "done\n", 5) != 5)
        return 1;
    return shared == (1 + 2 + 3) * ROUNDS && signals == SIGUSR1 ? 0 : 2;
}
