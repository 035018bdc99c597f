// Calls that a handled signal always interrupts, SA_RESTART or not.
#include "check.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>

static volatile int signals;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    signals++;
}

int main(void) {
    on_signal(SIGALRM, handler, SA_RESTART);
    struct itimerval timer = {{0, 10000}, {0, 10000}};
    CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);

    struct timespec request = {100, 0}, left = {0, 0};
    CHECK_FAILS(nanosleep(&request, &left), EINTR);
    CHECK(left.tv_sec >= 80 && left.tv_sec <= 100);
    CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, &request, &left), EINTR);
    CHECK_FAILS(pause(), EINTR);
    CHECK_FAILS(poll(NULL, 0, -1), EINTR);
    CHECK_FAILS(select(0, NULL, NULL, NULL, NULL), EINTR);
    int epoll = epoll_create1(0);
    struct epoll_event event;
    CHECK_FAILS(epoll_wait(epoll, &event, 1, -1), EINTR);
    sigset_t none, other;
    sigemptyset(&none);
    CHECK_FAILS(sigsuspend(&none), EINTR);
    sigemptyset(&other);
    sigaddset(&other, SIGUSR2);
    CHECK_FAILS(sigwaitinfo(&other, NULL), EINTR);
    CHECK(signals >= 8);
    unsigned sleep_left = sleep(100);
    CHECK(sleep_left > 80);
    puts("nine calls interrupted");
}
