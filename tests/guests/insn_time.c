// RDTSC, RDTSCP, RDRAND, RDSEED, RDPID and the clocks: monotonic, plausible, upper halves clear.
// build: -O1 -mrdrnd -mrdseed
// needs: rdtscp rdrand rdseed
#include "check.h"
#include <immintrin.h>
#include <sched.h>
#include <sys/time.h>
#include <time.h>

int main(void) {
    unsigned long last = 0;
    for (int i = 0; i < 10000; i++) {
        unsigned long low = -1, high = -1;
        asm volatile("rdtsc" : "=a"(low), "=d"(high));
        CHECK((low | high) >> 32 == 0);
        unsigned long now = high << 32 | low;
        CHECK(now >= last);
        last = now;
    }
    unsigned processor;
    for (int i = 0; i < 1000; i++) {
        unsigned long now = __builtin_ia32_rdtscp(&processor);
        CHECK(now >= last);
        last = now;
        CHECK((processor & 0xfff) < 4096);
    }
    unsigned long long random, other;
    int tries = 0, different = 0;
    for (int i = 0; i < 100; i++) {
        while (!_rdrand64_step(&random)) CHECK(tries++ < 100000);
        while (!_rdrand64_step(&other)) CHECK(tries++ < 100000);
        different += random != other;
    }
    CHECK(different > 95);
    while (!_rdseed64_step(&random)) CHECK(tries++ < 10000000);
    struct timespec before, after, coarse;
    CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &before), 0);
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &after), 0);
        CHECK(after.tv_sec > before.tv_sec || (after.tv_sec == before.tv_sec && after.tv_nsec >= before.tv_nsec));
        before = after;
    }
    CHECK_EQ(clock_gettime(CLOCK_REALTIME, &after), 0);
    CHECK_EQ(clock_gettime(CLOCK_REALTIME_COARSE, &coarse), 0);
    struct timeval day;
    CHECK_EQ(gettimeofday(&day, NULL), 0);
    CHECK(labs(day.tv_sec - after.tv_sec) <= 2 && labs(coarse.tv_sec - after.tv_sec) <= 2);
    CHECK(labs(time(NULL) - after.tv_sec) <= 2);
    CHECK(after.tv_sec > 1600000000);
    unsigned cpu, node;
    CHECK_EQ(getcpu(&cpu, &node), 0);
    CHECK(sched_getcpu() >= 0);
    puts("time goes forward");
}
