// Detached threads free their own stacks: far more of them than would fit at once.
// build: -pthread
#include "check.h"
#include <pthread.h>

static int finished;
static void *work(void *unused) {
    (void)unused;
    volatile char space[10000];
    space[0] = space[9999] = 1;
    __atomic_add_fetch(&finished, space[0], __ATOMIC_SEQ_CST);
    return NULL;
}

int main(void) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < 500; i++) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, &attributes, work, NULL), 0);
        while (i - __atomic_load_n(&finished, __ATOMIC_SEQ_CST) > 20) sched_yield();
    }
    while (__atomic_load_n(&finished, __ATOMIC_SEQ_CST) < 500) sched_yield();
    printf("%d detached threads\n", finished);
}
