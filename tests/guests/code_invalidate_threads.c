// Several threads on one page of code, each rewriting and calling its own function all the time:
// every write throws the others' code out, and nobody may notice.
// build: -pthread
#include "check.h"
#include <pthread.h>

#define THREADS 4
static unsigned char *page;

static void *work(void *argument) {
    long self = (long)argument;
    unsigned char *at = page + self * 256;
    int (*function)(int) = (int (*)(int))at;
    long sum = 0;
    for (int i = 0; i < 1500; i++) {
        int constant = (int)self * 100000 + i;
        // lea eax, [rdi + constant]; ret
        at[0] = 0x8d, at[1] = 0x87;
        memcpy(at + 2, &constant, 4);
        at[6] = 0xc3;
        for (int j = 0; j < 3; j++) {
            int got = function(j);
            if (got != constant + j) check_failed("thread %ld: %d instead of %d\n", self, got, constant + j);
            sum += got;
        }
    }
    return (void *)sum;
}

int main(void) {
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        void *sum;
        pthread_join(threads[i], &sum);
        printf("thread %d: %ld\n", i, (long)sum);
    }
}
