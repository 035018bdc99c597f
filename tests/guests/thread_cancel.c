// Cancellation: deferred at a cancellation point, disabled for a while, and asynchronous out of
// a loop without any call; the cleanup handlers run in order.
// build: -pthread
#include "check.h"
#include <pthread.h>

static char trace[100];
static volatile int started;
static void note(void *text) { strcat(trace, text); }

static void *deferred(void *unused) {
    (void)unused;
    pthread_cleanup_push(note, "[outer]");
    pthread_cleanup_push(note, "[inner]");
    started = 1;
    for (;;) sleep(100);
    pthread_cleanup_pop(0);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *disabled(void *unused) {
    (void)unused;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    started = 1;
    for (int i = 0; i < 10; i++) usleep(2000);
    note("(finished)");
    pthread_cleanup_push(note, "[cleanup]");
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    pthread_testcancel();
    note("(not reached)");
    pthread_cleanup_pop(0);
    return NULL;
}

static void *asynchronous(void *unused) {
    (void)unused;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    pthread_cleanup_push(note, "[async]");
    started = 1;
    for (;;) {}
    pthread_cleanup_pop(0);
    return NULL;
}

static void *in_read(void *ends) {
    char byte;
    started = 1;
    CHECK_EQ(read(((int *)ends)[0], &byte, 1), 1);
    return NULL;
}

static void cancel(void *(*function)(void *), void *argument) {
    started = 0;
    trace[0] = 0;
    pthread_t thread;
    void *result;
    CHECK_EQ(pthread_create(&thread, NULL, function, argument), 0);
    while (!started) usleep(100);
    CHECK_EQ(pthread_cancel(thread), 0);
    CHECK_EQ(pthread_join(thread, &result), 0);
    CHECK(result == PTHREAD_CANCELED);
    printf("cancelled: %s\n", trace);
}

int main(void) {
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    for (int round = 0; round < 5; round++) {
        cancel(deferred, NULL);
        cancel(disabled, NULL);
        cancel(asynchronous, NULL);
        cancel(in_read, ends);
    }
}
