// Two thousand queued signals from another process while this one reads, writes, forks, sleeps
// and computes: none is lost, none comes twice, values arrive in order.
#include "check.h"
#include <time.h>

static volatile int received, wrong;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    if (info->si_value.sival_int != received) wrong++;
    received++;
}

int main(void) {
    on_signal(SIGRTMIN + 5, handler, SA_RESTART);
    pid_t parent = getpid(), sender = fork();
    if (sender == 0) {
        signal(SIGRTMIN + 5, SIG_IGN);
        for (int i = 0; i < 2000; i++) {
            // The queue is bounded: wait for room.
            while (sigqueue(parent, SIGRTMIN + 5, (union sigval){.sival_int = i}) != 0) {
                CHECK_EQ(errno, EAGAIN);
                usleep(100);
            }
            for (volatile int j = 0; j < i % 50 * 20; j++) {}
        }
        _exit(0);
    }
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    volatile uint64_t hash = 1;
    for (int i = 0; received < 2000; i++) {
        char byte = (char)i;
        CHECK_EQ(write(ends[1], &byte, 1), 1);
        CHECK_EQ(read(ends[0], &byte, 1), 1);
        CHECK_EQ(byte, (char)i);
        for (int j = 0; j < 500; j++) hash = hash * 31 + j;
        if (i % 100 == 0) {
            pid_t child = fork();
            if (child == 0) _exit(i / 100 & 63);
            CHECK_EQ(exit_code_of(child), i / 100 & 63);
        }
        if (i % 7 == 0) nanosleep(&(struct timespec){0, 10000}, NULL);
    }
    CHECK_EQ(exit_code_of(sender), 0);
    printf("received %d, wrong %d\n", received, wrong);
    CHECK_EQ(wrong, 0);
}
