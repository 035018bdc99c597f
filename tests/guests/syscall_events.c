// Event descriptors: eventfd, timerfd, inotify, pidfd, and poll, select and epoll on them.
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/select.h>
#include <sys/timerfd.h>

int main(void) {
    int event = eventfd(3, EFD_NONBLOCK);
    uint64_t value = 4;
    CHECK_EQ(write(event, &value, 8), 8);
    CHECK_EQ(read(event, &value, 8), 8);
    CHECK_FAILS(read(event, &value, 8), EAGAIN);
    printf("eventfd %lu\n", value);

    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec often = {{0, 5000000}, {0, 5000000}};
    CHECK_EQ(timerfd_settime(timer, 0, &often, NULL), 0);
    uint64_t expired = 0;
    while (expired < 3) {
        CHECK_EQ(read(timer, &value, 8), 8);
        expired += value;
    }
    puts("timerfd");

    int watch = inotify_init1(IN_NONBLOCK);
    CHECK(inotify_add_watch(watch, ".", IN_CREATE | IN_DELETE) >= 0);
    close(open("noticed", O_CREAT | O_WRONLY, 0600));
    unlink("noticed");
    char buffer[1000];
    ssize_t got = read(watch, buffer, sizeof buffer);
    for (char *at = buffer; at < buffer + got; at += sizeof(struct inotify_event) + ((struct inotify_event *)at)->len)
        printf("inotify %x %s\n", ((struct inotify_event *)at)->mask, ((struct inotify_event *)at)->name);

    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    struct pollfd polled[3] = {{ends[0], POLLIN, 0}, {event, POLLIN | POLLOUT, 0}, {ends[1], POLLOUT, 0}};
    CHECK_EQ(poll(polled, 3, 1000), 3);
    printf("poll %x %x %x\n", polled[0].revents, polled[1].revents, polled[2].revents);
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    FD_SET(event, &set);
    CHECK_EQ(select(20, &set, NULL, NULL, &(struct timeval){1, 0}), 1);
    CHECK(FD_ISSET(ends[0], &set) && !FD_ISSET(event, &set));
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event wanted = {.events = EPOLLIN | EPOLLET, .data.u64 = 0x1122334455667788}, seen;
    CHECK_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &wanted), 0);
    CHECK_EQ(epoll_wait(epoll, &seen, 1, 1000), 1);
    CHECK_EQ(seen.data.u64, 0x1122334455667788);
    CHECK_EQ(epoll_wait(epoll, &seen, 1, 0), 0);
    CHECK_FAILS(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &wanted), EEXIST);
    puts("edge triggered once");
}
