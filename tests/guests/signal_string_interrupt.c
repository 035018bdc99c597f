// Long repeated string instructions under a timer: whatever the interruption, all bytes arrive.
#include "check.h"
#include <sys/time.h>

static volatile int signals;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    signals++;
}

int main(void) {
    const size_t size = 16 << 20;
    unsigned char *from = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *to = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(from != MAP_FAILED && to != MAP_FAILED);
    for (size_t i = 0; i < size; i++) from[i] = i * 7 + (i >> 12);
    on_signal(SIGALRM, handler, 0);
    struct itimerval timer = {{0, 500}, {0, 500}};
    CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
    for (int round = 0; round < 100 && signals < 40; round++) {
        void *source = from, *target = to;
        size_t count = size;
        memset(to, 0, 4096);
        asm volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(count)::"memory");
        CHECK(source == from + size && target == to + size && count == 0);
        CHECK_EQ(memcmp(from, to, size), 0);
        target = to, count = size / 8;
        asm volatile("rep stosq" : "+D"(target), "+c"(count) : "a"(0x1111111111111111ul) : "memory");
        CHECK(target == to + size && count == 0);
        CHECK_EQ(to[size - 1], 0x11);
    }
    puts("all bytes arrived");
}
