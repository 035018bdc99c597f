// sigsuspend swaps the mask atomically: two processes take turns a thousand times by signals
// alone. A lost wakeup hangs.
#include "check.h"

static volatile sig_atomic_t turn;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    turn++;
}

static void play(pid_t other, int rounds, int first) {
    sigset_t open;
    sigemptyset(&open);
    for (int i = 0; i < rounds; i++) {
        if (first) CHECK_EQ(kill(other, SIGUSR1), 0);
        while (turn == 0) {
            CHECK_EQ(sigsuspend(&open), -1);
            CHECK_EQ(errno, EINTR);
        }
        turn--;
        if (!first) CHECK_EQ(kill(other, SIGUSR1), 0);
    }
}

int main(void) {
    on_signal(SIGUSR1, handler, 0);
    sigset_t block;
    sigemptyset(&block);
    sigaddset(&block, SIGUSR1);
    CHECK_EQ(sigprocmask(SIG_BLOCK, &block, NULL), 0);
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0) {
        play(parent, 1000, 0);
        _exit(6);
    }
    play(child, 1000, 1);
    printf("child exited with %d\n", exit_code_of(child));
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    CHECK(sigismember(&now, SIGUSR1));
    puts("the mask is back");
}
