// A thread calls exit while others are being created and ended all the time.
// build: -pthread
#include "check.h"
#include <pthread.h>

static void *nothing(void *unused) { return unused; }

static void *create(void *unused) {
    (void)unused;
    for (;;) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, nothing, NULL) == 0) pthread_join(thread, NULL);
    }
    return NULL;
}

int main(void) {
    for (int round = 0; round < 10; round++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            for (int i = 0; i < 4; i++) pthread_create(&thread, NULL, create, NULL);
            usleep(3000 + round * 300);
            _exit(round);
        }
        CHECK_EQ(exit_code_of(child), round);
    }
    puts("10 processes ended while creating threads");
}
