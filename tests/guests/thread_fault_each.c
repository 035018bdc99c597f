// Several threads fault at the same time, each with its own handler frame and recovery.
// build: -pthread
#include "check.h"
#include <pthread.h>
#include <setjmp.h>

static __thread sigjmp_buf recover;
static __thread long expected;

static void handler(int number, siginfo_t *info, void *context) {
    (void)context;
    CHECK_EQ(number, SIGSEGV);
    CHECK_EQ((long)info->si_addr, expected);
    siglongjmp(recover, 1);
}

static void *work(void *argument) {
    long self = (long)argument;
    long count = 0;
    for (volatile int i = 0; i < 1000; i++) {
        expected = self * 256 + i % 50;
        if (sigsetjmp(recover, 1) == 0) *(volatile char *)expected = 1;
        else count++;
    }
    return (void *)count;
}

int main(void) {
    on_signal(SIGSEGV, handler, 0);
    pthread_t threads[8];
    long total = 0;
    for (long i = 0; i < 8; i++) CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)(i + 1)), 0);
    for (int i = 0; i < 8; i++) {
        void *count;
        pthread_join(threads[i], &count);
        total += (long)count;
    }
    printf("%ld faults\n", total);
}
