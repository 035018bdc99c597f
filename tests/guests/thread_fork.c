// fork from a thread while others run: only the caller survives in the child, which can create
// threads, allocate and fork again.
// build: -pthread
#include "check.h"
#include <dirent.h>
#include <pthread.h>

static volatile int stop;
static __thread int mark;

static void *busy(void *unused) {
    (void)unused;
    while (!stop) free(malloc(100));
    return NULL;
}

static int tasks(void) {
    DIR *directory = opendir("/proc/self/task");
    int count = 0;
    for (struct dirent *entry; (entry = readdir(directory));) count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

static void *in_child(void *argument) {
    CHECK_EQ(mark, 0);
    return argument;
}

static void *forker(void *argument) {
    mark = 77;
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) {
            CHECK_EQ(mark, 77);
            CHECK_EQ(tasks(), 1);
            CHECK_EQ(gettid(), getpid());
            pthread_t thread;
            void *result;
            CHECK_EQ(pthread_create(&thread, NULL, in_child, (void *)9), 0);
            pthread_join(thread, &result);
            CHECK_EQ((long)result, 9);
            pid_t grandchild = fork();
            if (grandchild == 0) _exit(20 + i);
            _exit(exit_code_of(grandchild) + 1);
        }
        CHECK_EQ(exit_code_of(child), 21 + i);
    }
    return argument;
}

static int prepared, in_parent, in_forked;
static void prepare(void) { prepared++; }
static void parent(void) { in_parent++; }
static void forked(void) { in_forked++; }

int main(void) {
    CHECK_EQ(pthread_atfork(prepare, parent, forked), 0);
    pthread_t threads[3];
    for (int i = 0; i < 2; i++) CHECK_EQ(pthread_create(&threads[i], NULL, busy, NULL), 0);
    CHECK_EQ(pthread_create(&threads[2], NULL, forker, NULL), 0);
    pthread_join(threads[2], NULL);
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    printf("prepared %d, in parent %d, in child %d\n", prepared, in_parent, in_forked);
}
