// Robust mutexes: the owner dies, as a thread or as a process, and the next one learns of it.
// build: -pthread
#include "check.h"
#include <pthread.h>

static pthread_mutex_t *mutex;

static void *die_with_lock(void *unused) {
    (void)unused;
    CHECK_EQ(pthread_mutex_lock(mutex), 0);
    return NULL;
}

static void *wait_for_lock(void *unused) {
    (void)unused;
    int result = pthread_mutex_lock(mutex);
    CHECK_EQ(result, EOWNERDEAD);
    CHECK_EQ(pthread_mutex_consistent(mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(mutex), 0);
    return NULL;
}

int main(void) {
    mutex = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(mutex != MAP_FAILED);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    CHECK_EQ(pthread_mutex_init(mutex, &attributes), 0);

    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, die_with_lock, NULL), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(pthread_mutex_lock(mutex), EOWNERDEAD);
    CHECK_EQ(pthread_mutex_consistent(mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(mutex), 0);
    puts("a dead thread's lock recovered");

    pid_t child = fork();
    if (child == 0) {
        CHECK_EQ(pthread_mutex_lock(mutex), 0);
        kill(getpid(), SIGKILL);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(pthread_create(&thread, NULL, wait_for_lock, NULL), 0);
    pthread_join(thread, NULL);
    puts("a killed process's lock recovered");

    // A waiter that already sleeps is woken by the kernel.
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        CHECK_EQ(pthread_mutex_lock(mutex), 0);
        CHECK_EQ(write(ends[1], "x", 1), 1);
        usleep(30000);
        _exit(0);
    }
    char byte;
    CHECK_EQ(read(ends[0], &byte, 1), 1);
    CHECK_EQ(pthread_mutex_lock(mutex), EOWNERDEAD);
    CHECK_EQ(exit_code_of(child), 0);
    CHECK_EQ(pthread_mutex_unlock(mutex), 0);
    CHECK_EQ(pthread_mutex_lock(mutex), ENOTRECOVERABLE);
    puts("not recoverable without consistent");
}
