// execve from a thread that is not the first: the others vanish, the process keeps its id.
// build: -pthread
// exit: 12
#include "check.h"
#include <dirent.h>
#include <pthread.h>

static char **arguments;
static pthread_barrier_t barrier;

static void *spin(void *unused) {
    (void)unused;
    pthread_barrier_wait(&barrier);
    for (;;) {}
    return NULL;
}
static void *wait_long(void *unused) {
    (void)unused;
    pthread_barrier_wait(&barrier);
    for (;;) pause();
    return NULL;
}
static void *replace(void *unused) {
    (void)unused;
    pthread_barrier_wait(&barrier);
    // A failing exec first: it must leave everything alive.
    CHECK_FAILS(execl("/does/not/exist", "x", NULL), ENOENT);
    char pid[20];
    sprintf(pid, "%d", getpid());
    CHECK(gettid() != getpid());
    execl(arguments[0], "second", pid, NULL);
    check_failed("exec failed\n");
}

int main(int argc, char **argv) {
    if (argc > 1) {
        CHECK_EQ(atoi(argv[1]), getpid());
        CHECK_EQ(gettid(), getpid());
        DIR *tasks = opendir("/proc/self/task");
        int count = 0;
        for (struct dirent *entry; (entry = readdir(tasks));) count += entry->d_name[0] != '.';
        printf("%s: %d thread\n", argv[0], count);
        return 12;
    }
    arguments = argv;
    pthread_barrier_init(&barrier, NULL, 4);
    pthread_t threads[3];
    CHECK_EQ(pthread_create(&threads[0], NULL, spin, NULL), 0);
    CHECK_EQ(pthread_create(&threads[1], NULL, wait_long, NULL), 0);
    CHECK_EQ(pthread_create(&threads[2], NULL, replace, NULL), 0);
    pthread_barrier_wait(&barrier);
    for (;;) pause();
}
