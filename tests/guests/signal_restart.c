// SA_RESTART: an interrupted read goes on; without it the read fails with EINTR.
#include "check.h"
#include <sys/time.h>

static int pipe_ends[2];
static volatile int signals;

static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    // Data only after some interruptions, so that the read was restarted at least once.
    if (++signals == 5) CHECK_EQ(write(pipe_ends[1], "x", 1), 1);
}

int main(void) {
    CHECK_EQ(pipe(pipe_ends), 0);
    // Repeating: a signal that came before the read cannot leave the read waiting for ever.
    struct itimerval timer = {{0, 10000}, {0, 10000}}, off = {{0, 0}, {0, 0}};
    char byte = 0;

    on_signal(SIGALRM, handler, SA_RESTART);
    CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
    CHECK_EQ(read(pipe_ends[0], &byte, 1), 1);
    CHECK_EQ(setitimer(ITIMER_REAL, &off, NULL), 0);
    CHECK(signals >= 5);
    printf("with SA_RESTART: read '%c'\n", byte);

    signals = 100;
    on_signal(SIGALRM, handler, 0);
    CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
    CHECK_FAILS(read(pipe_ends[0], &byte, 1), EINTR);
    CHECK_EQ(setitimer(ITIMER_REAL, &off, NULL), 0);
    CHECK(signals > 100);
    puts("without: EINTR");

    // waitpid restarts too.
    pid_t child = fork();
    if (child == 0) {
        usleep(60000);
        _exit(4);
    }
    on_signal(SIGALRM, handler, SA_RESTART);
    CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    printf("waitpid restarted: %d\n", WEXITSTATUS(status));
}
