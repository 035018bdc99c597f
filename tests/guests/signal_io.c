// Signals of the kernel's own making: SIGIO with descriptor and band, SIGXFSZ, SIGURG by a
// socket, and a lease on a file.
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>

static volatile int number_seen, fd_seen, band_seen, code_seen, count;
static void handler(int number, siginfo_t *info, void *context) {
    (void)context;
    number_seen = number;
    if (number != SIGXFSZ) fd_seen = info->si_fd, band_seen = (int)info->si_band, code_seen = info->si_code;
    count++;
}

int main(void) {
    on_signal(SIGRTMIN + 4, handler, SA_RESTART);
    on_signal(SIGXFSZ, handler, SA_RESTART);
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(fcntl(ends[0], F_SETOWN, getpid()), 0);
    CHECK_EQ(fcntl(ends[0], F_SETSIG, SIGRTMIN + 4), 0);
    CHECK_EQ(fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK), 0);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    while (count == 0) usleep(100);
    CHECK_EQ(number_seen, SIGRTMIN + 4);
    CHECK_EQ(fd_seen, ends[0]);
    printf("io: code %d, band %#x\n", code_seen, band_seen);

    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 1000;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int file = open("limited", O_CREAT | O_RDWR, 0600);
    char data[2000] = {0};
    CHECK_EQ(write(file, data, 2000), 1000);
    int before = count;
    CHECK_FAILS(write(file, data, 10), EFBIG);
    CHECK_EQ(number_seen, SIGXFSZ);
    CHECK_EQ(count, before + 1);
    puts("file size limit");
}
