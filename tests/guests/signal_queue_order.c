// Real-time signals: queued, lowest number first, in order within a number, each with its value.
#include "check.h"

static volatile int seen[100], count;
static void handler(int number, siginfo_t *info, void *context) {
    (void)context;
    CHECK_EQ(info->si_code, SI_QUEUE);
    CHECK_EQ(info->si_pid, getpid());
    CHECK_EQ(info->si_uid, getuid());
    seen[count++] = (number - SIGRTMIN) * 100 + info->si_value.sival_int;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigfillset(&action.sa_mask); // one at a time, so that the order shows
    sigset_t all, old;
    sigfillset(&all);
    for (int i = 0; i < 4; i++) CHECK_EQ(sigaction(SIGRTMIN + i, &action, NULL), 0);
    CHECK_EQ(sigprocmask(SIG_BLOCK, &all, &old), 0);
    const int order[] = {3, 1, 2, 0, 1, 3, 0, 2, 1, 0};
    for (int i = 0; i < 10; i++) {
        union sigval value = {.sival_int = i};
        CHECK_EQ(sigqueue(getpid(), SIGRTMIN + order[i], value), 0);
    }
    CHECK_EQ(count, 0);
    CHECK_EQ(sigprocmask(SIG_SETMASK, &old, NULL), 0);
    CHECK_EQ(count, 10);
    for (int i = 0; i < 10; i++) printf("%d ", seen[i]);
    puts("");
    for (int i = 1; i < 10; i++) CHECK(seen[i - 1] < seen[i]);
    CHECK_FAILS(sigqueue(getpid(), 65, (union sigval){0}), EINVAL);
    CHECK_EQ(sigqueue(getpid(), 0, (union sigval){0}), 0);
}
