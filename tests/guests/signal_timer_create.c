// POSIX timers: signal with value, SI_TIMER, overruns, to a thread, and none after deletion.
// build: -pthread
#include "check.h"
#include <pthread.h>
#include <time.h>
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static volatile int fired, value, code, tid;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    value = info->si_value.sival_int;
    code = info->si_code;
    tid = gettid();
    fired++;
}

int main(void) {
    on_signal(SIGRTMIN, handler, 0);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    event.sigev_value.sival_int = 99;
    timer_t timer;
    CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    struct itimerspec often = {{0, 2000000}, {0, 2000000}}, off = {{0, 0}, {0, 0}};
    CHECK_EQ(timer_settime(timer, 0, &often, NULL), 0);
    while (fired < 10) {}
    CHECK_EQ(timer_settime(timer, 0, &off, NULL), 0);
    CHECK_EQ(value, 99);
    CHECK_EQ(code, SI_TIMER);

    sigset_t block, old;
    sigemptyset(&block);
    sigaddset(&block, SIGRTMIN);
    CHECK_EQ(sigprocmask(SIG_BLOCK, &block, &old), 0);
    CHECK_EQ(timer_settime(timer, 0, &often, NULL), 0);
    usleep(30000);
    siginfo_t info;
    CHECK_EQ(sigwaitinfo(&block, &info), SIGRTMIN);
    CHECK(info.si_overrun > 3);
    // Newer kernels drop a signal of a timer that was disarmed; older ones leave it queued.
    CHECK_EQ(timer_settime(timer, 0, &off, NULL), 0);
    struct timespec no_time = {0, 0};
    sigtimedwait(&block, &info, &no_time);
    CHECK_EQ(sigprocmask(SIG_SETMASK, &old, NULL), 0);
    CHECK_EQ(timer_delete(timer), 0);
    CHECK_FAILS(timer_delete(timer), EINVAL);

    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_notify_thread_id = gettid();
    CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    int before = fired;
    CHECK_EQ(timer_settime(timer, 0, &often, NULL), 0);
    while (fired == before) {}
    CHECK_EQ(timer_delete(timer), 0);
    CHECK_EQ(tid, gettid());
    puts("timers fired with value and overruns");
}
