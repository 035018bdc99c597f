// Stopping and continuing a process with several threads that spin, sleep and wait: all stop, all
// go on.
// build: -pthread
#include "check.h"
#include <pthread.h>

static volatile long *counters;

static void *spin(void *argument) {
    for (;;) counters[(long)argument]++;
    return NULL;
}
static void *doze(void *argument) {
    for (;;) {
        counters[(long)argument]++;
        usleep(500);
    }
    return NULL;
}

int main(void) {
    counters = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(counters != MAP_FAILED);
    pid_t child = fork();
    if (child == 0) {
        pthread_t threads[4];
        for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, i % 2 ? spin : doze, (void *)i);
        for (;;) pause();
    }
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 4; i++) {
            long before = counters[i];
            while (counters[i] == before) usleep(1000);
        }
        CHECK_EQ(kill(child, SIGSTOP), 0);
        int status;
        CHECK_EQ(waitpid(child, &status, WUNTRACED), child);
        CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
        long seen[4];
        for (int i = 0; i < 4; i++) seen[i] = counters[i];
        usleep(10000);
        for (int i = 0; i < 4; i++) CHECK_EQ(counters[i], seen[i]);
        CHECK_EQ(kill(child, SIGCONT), 0);
        CHECK_EQ(waitpid(child, &status, WCONTINUED), child);
        CHECK(WIFCONTINUED(status));
    }
    CHECK_EQ(kill(child, SIGKILL), 0);
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    puts("stopped and continued five times");
}
