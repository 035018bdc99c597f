// Writing to a pipe nobody reads: SIGPIPE by default, EPIPE when ignored or handled.
// signal: SIGPIPE
#include "check.h"

static volatile int caught;
static void handler(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    CHECK_EQ(number, SIGPIPE);
    caught++;
}

int main(void) {
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    CHECK_FAILS(write(ends[1], "x", 1), EPIPE);
    puts("ignored: EPIPE");
    on_signal(SIGPIPE, handler, SA_RESTART);
    CHECK_FAILS(write(ends[1], "x", 1), EPIPE);
    printf("handled: EPIPE, %d signal\n", caught);
    signal(SIGPIPE, SIG_DFL);
    CHECK_FAILS(write(ends[1], "x", 1), EPIPE);
    puts("not reached");
}
