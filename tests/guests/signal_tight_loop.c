// A loop that only reads a flag must notice a timer's signal, in bounded time, again and again.
#include "check.h"
#include <sys/time.h>

static volatile int flag;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    flag = 1;
}

int main(void) {
    on_signal(SIGALRM, handler, 0);
    for (int i = 0; i < 50; i++) {
        flag = 0;
        struct itimerval timer = {{0, 0}, {0, 3000}};
        CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
        while (!flag) {}
    }
    // A block that jumps to itself, with nothing to read at all: only the handler can end it.
    puts("50 signals noticed");
    struct sigaction action = {.sa_handler = _exit};
    CHECK_EQ(sigaction(SIGVTALRM, &action, NULL), 0);
    struct itimerval timer = {{0, 0}, {0, 20000}};
    pid_t child = fork();
    if (child == 0) {
        setitimer(ITIMER_VIRTUAL, &timer, NULL);
        asm volatile("1: jmp 1b");
    }
    printf("self-jump left with %d\n", exit_code_of(child));
}
