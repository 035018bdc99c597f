// A statically linked program: no dynamic loader, its own relocation of indirect functions, TLS
// set up by itself, threads, and stdio.
// build: -static -pthread -lm
// args: one two
#include "check.h"
#include <math.h>
#include <pthread.h>
#include <sys/auxv.h>

static __thread int local = 5;
static void *work(void *argument) {
    CHECK_EQ(local, 5);
    local = 6;
    return argument;
}

int main(int argc, char **argv) {
    CHECK_EQ(argc, 3);
    CHECK_EQ(getauxval(AT_BASE), 0);
    printf("%s %s %.6f\n", argv[1], argv[2], sin(1.0));
    pthread_t thread;
    void *result;
    CHECK_EQ(pthread_create(&thread, NULL, work, (void *)4), 0);
    CHECK_EQ(pthread_join(thread, &result), 0);
    char buffer[100];
    memset(buffer, 'x', 99);
    buffer[99] = 0;
    printf("%zu %ld %d\n", strlen(buffer), (long)result, local);
    pid_t child = fork();
    if (child == 0) exit(14);
    printf("child %d\n", exit_code_of(child));
}
