// Thread-local variables: initial values, alignment, separate copies, zero-filled ones, and
// destructors of thread-specific data.
// build: -pthread
#include "check.h"
#include <pthread.h>

static __thread int initialised = 42;
static __thread char zeroed[5000];
static __thread long aligned __attribute__((aligned(64))) = 7;
static __thread int *pointer_to_own;
static pthread_key_t key;
static int destroyed;

static void destroy(void *value) {
    __atomic_add_fetch(&destroyed, (int)(long)value, __ATOMIC_SEQ_CST);
}

static void *work(void *argument) {
    long self = (long)argument;
    CHECK_EQ(initialised, 42);
    CHECK_EQ(aligned, 7);
    CHECK_EQ((long)&aligned % 64, 0);
    for (int i = 0; i < 5000; i++) CHECK_EQ(zeroed[i], 0);
    pointer_to_own = &initialised;
    for (int i = 0; i < 2000; i++) {
        initialised += (int)self;
        zeroed[i] = (char)self;
        CHECK(pointer_to_own == &initialised);
    }
    CHECK_EQ(initialised, 42 + 2000 * self);
    errno = (int)self;
    usleep(500);
    CHECK_EQ(errno, self);
    CHECK(pthread_getspecific(key) == NULL);
    pthread_setspecific(key, argument);
    return NULL;
}

int main(void) {
    CHECK_EQ(pthread_key_create(&key, destroy), 0);
    for (int round = 0; round < 5; round++) {
        pthread_t threads[8];
        for (long i = 0; i < 8; i++) CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)(i + 1)), 0);
        for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    }
    CHECK_EQ(initialised, 42);
    printf("destroyed %d\n", destroyed);
    CHECK_EQ(destroyed, 36 * 5);
}
