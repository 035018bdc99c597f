// Nested handlers: a signal's own handler blocks it, sa_mask blocks others, and what was blocked
// runs when the handler returns, in the kernel's order.
#include "check.h"

static char trace[200];
// The library declares raise as not calling back; a barrier makes the compiler forget.
#define RAISE(number) do { raise(number); asm volatile("" ::: "memory"); } while (0)
static void say(const char *text) { strcat(trace, text); }

static void inner(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    say(number == SIGUSR2 ? "[usr2]" : number == SIGHUP ? "[hup]" : "[other]");
}

static volatile int depth;
static void outer(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    CHECK_EQ(depth, 0);
    depth++;
    say("(");
    RAISE(SIGUSR2); // not blocked: at once
    say("|");
    RAISE(SIGHUP); // in sa_mask: later
    say("|");
    if (!strchr(trace, '!')) {
        say("!");
        RAISE(number); // itself: later
    }
    sigset_t pending;
    sigpending(&pending);
    say(sigismember(&pending, SIGHUP) ? "h" : "-");
    say(sigismember(&pending, SIGUSR1) ? "1" : "-");
    say(")");
    depth--;
}

int main(void) {
    on_signal(SIGUSR2, inner, 0);
    on_signal(SIGHUP, inner, 0);
    struct sigaction action = {.sa_sigaction = outer, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGHUP);
    CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    RAISE(SIGUSR1);
    puts(trace);
}
