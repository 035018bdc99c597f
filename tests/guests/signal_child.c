// SIGCHLD: who, how and with what status; SA_NOCLDSTOP; SA_NOCLDWAIT and SIG_IGN leave no zombie.
#include "check.h"

static volatile int count, code, status_seen, pid_seen;
static void handler(int number, siginfo_t *info, void *context) {
    (void)context;
    CHECK_EQ(number, SIGCHLD);
    code = info->si_code, status_seen = info->si_status, pid_seen = info->si_pid;
    count++;
}

static void wait_for_signal(int wanted) {
    sigset_t block, old;
    sigemptyset(&block);
    sigaddset(&block, SIGCHLD);
    sigprocmask(SIG_BLOCK, &block, &old);
    while (count < wanted) sigsuspend(&old);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

int main(void) {
    int status;
    on_signal(SIGCHLD, handler, 0);
    pid_t child = fork();
    if (child == 0) _exit(42);
    wait_for_signal(1);
    CHECK_EQ(pid_seen, child);
    printf("exit: code %d, status %d\n", code, status_seen);
    CHECK_EQ(waitpid(child, &status, WNOHANG), child);

    child = fork();
    if (child == 0)
        for (;;) pause();
    kill(child, SIGSTOP);
    wait_for_signal(2);
    printf("stop: code %d, status %d\n", code, status_seen);
    kill(child, SIGCONT);
    wait_for_signal(3);
    printf("continue: code %d, status %d\n", code, status_seen);
    kill(child, SIGTERM);
    wait_for_signal(4);
    printf("kill: code %d, status %d\n", code, status_seen);
    CHECK_EQ(waitpid(child, &status, 0), child);

    on_signal(SIGCHLD, handler, SA_NOCLDSTOP | SA_RESTART);
    child = fork();
    if (child == 0)
        for (;;) pause();
    kill(child, SIGSTOP);
    CHECK_EQ(waitpid(child, &status, WUNTRACED), child);
    CHECK_EQ(count, 4);
    kill(child, SIGKILL);
    CHECK_EQ(waitpid(child, &status, 0), child);
    wait_for_signal(5);

    on_signal(SIGCHLD, handler, SA_NOCLDWAIT | SA_RESTART);
    child = fork();
    if (child == 0) _exit(1);
    CHECK_FAILS(waitpid(child, &status, 0), ECHILD);
    signal(SIGCHLD, SIG_IGN);
    child = fork();
    if (child == 0) _exit(1);
    CHECK_FAILS(waitpid(child, &status, 0), ECHILD);
    puts("no zombies when ignored");
}
