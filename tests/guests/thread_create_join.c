// Many short threads, one after the other and in groups, each returning its own value.
// build: -pthread
#include "check.h"
#include <pthread.h>

static void *square(void *argument) { return (void *)((long)argument * (long)argument); }

int main(void) {
    long sum = 0;
    for (long i = 0; i < 300; i++) {
        pthread_t thread;
        void *result;
        CHECK_EQ(pthread_create(&thread, NULL, square, (void *)i), 0);
        CHECK_EQ(pthread_join(thread, &result), 0);
        sum += (long)result;
    }
    for (int group = 0; group < 20; group++) {
        pthread_t threads[16];
        for (long i = 0; i < 16; i++) CHECK_EQ(pthread_create(&threads[i], NULL, square, (void *)i), 0);
        for (int i = 15; i >= 0; i--) {
            void *result;
            CHECK_EQ(pthread_join(threads[i], &result), 0);
            CHECK_EQ((long)result, i * i);
            sum += (long)result;
        }
    }
    printf("sum %ld\n", sum);
}
