// Several threads starting processes at the same time with posix_spawn, fork and system, while
// another one allocates.
// build: -pthread
#include "check.h"
#include <pthread.h>
#include <spawn.h>

extern char **environ;
static volatile int stop;

static void *allocate(void *unused) {
    (void)unused;
    while (!stop) free(malloc(5000));
    return NULL;
}

static void *start(void *argument) {
    long self = (long)argument, sum = 0;
    for (int i = 0; i < 12; i++) {
        pid_t child;
        char *arguments[] = {"sh", "-c", "exit 3", NULL};
        if ((self + i) % 3 == 0) {
            CHECK_EQ(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ), 0);
            sum += exit_code_of(child);
        } else if ((self + i) % 3 == 1) {
            child = fork();
            if (child == 0) _exit(4);
            sum += exit_code_of(child);
        } else {
            child = vfork();
            if (child == 0) {
                execv("/bin/sh", arguments);
                _exit(1);
            }
            sum += exit_code_of(child);
        }
    }
    return (void *)sum;
}

int main(void) {
    pthread_t allocator, threads[4];
    CHECK_EQ(pthread_create(&allocator, NULL, allocate, NULL), 0);
    for (long i = 0; i < 4; i++) CHECK_EQ(pthread_create(&threads[i], NULL, start, (void *)i), 0);
    long sum = 0;
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        sum += (long)result;
    }
    stop = 1;
    pthread_join(allocator, NULL);
    printf("sum %ld\n", sum);
}
