// setresuid in a threaded process: the C library changes all threads by signalling each of them.
// build: -pthread
#include "check.h"
#include <pthread.h>

static volatile int stop;
static void *spin(void *unused) {
    (void)unused;
    while (!stop) {}
    return NULL;
}
static void *sleeper(void *unused) {
    (void)unused;
    while (!stop) usleep(1000);
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK_EQ(pthread_create(&threads[i], NULL, i % 2 ? spin : sleeper, NULL), 0);
    uid_t real, effective, saved;
    CHECK_EQ(getresuid(&real, &effective, &saved), 0);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(setresuid(real, effective, saved), 0);
        CHECK_EQ(setgid(getgid()), 0);
    }
    stop = 1;
    for (int i = 0; i < 4; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
    puts("ids set in all threads");
}
