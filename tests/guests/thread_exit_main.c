// main leaves with pthread_exit; the process lives until its last thread ends, with code 0.
// build: -pthread
#include "check.h"
#include <pthread.h>

static pthread_t main_thread;

static void *work(void *unused) {
    (void)unused;
    void *result;
    CHECK_EQ(pthread_join(main_thread, &result), 0);
    CHECK_EQ((long)result, 5);
    usleep(20000);
    puts("main is gone, the thread goes on");
    return NULL;
}

static void at_end(void) { puts("exit handler"); }

int main(void) {
    atexit(at_end);
    main_thread = pthread_self();
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, work, NULL), 0);
    pthread_exit((void *)5);
}
