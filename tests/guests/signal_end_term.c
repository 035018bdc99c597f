// A process killed by SIGTERM from its own child ends with that signal, and runs no exit handler.
// signal: SIGTERM
#include "check.h"

static void at_end(void) { puts("exit handler"); }

int main(void) {
    atexit(at_end);
    puts("waiting");
    pid_t parent = getpid();
    if (fork() == 0) {
        kill(parent, SIGTERM);
        _exit(0);
    }
    for (;;) pause();
}
