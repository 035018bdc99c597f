// A computation with calls, indirect jumps, strings and vectors under a storm of signals must
// give the same result as without them.
// build: -O2
#include "check.h"
#include <sys/time.h>

static volatile int signals;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    signals++;
    // Uses the same library routines that are being interrupted.
    char text[64];
    memset(text, signals, sizeof text);
    snprintf(text, sizeof text, "%d %f", signals, signals / 3.0);
}

static uint64_t mix(uint64_t x) { return (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u; }
static uint64_t rotate(uint64_t x) { return x << 13 | x >> 51; }
static uint64_t add(uint64_t x) { return x + 0x1234567; }
static uint64_t (*const volatile steps[])(uint64_t) = {mix, rotate, add, mix};

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t compute(void) {
    static uint64_t numbers[500];
    static char text[4000], copy[4000];
    uint64_t hash = 1;
    double sum = 0;
    for (int round = 0; round < 60; round++) {
        for (int i = 0; i < 500; i++) numbers[i] = hash = steps[hash & 3](hash + i);
        qsort(numbers, 500, sizeof numbers[0], compare);
        for (int i = 0; i < 500; i++) sum += 1.0 / (1 + (numbers[i] & 0xff));
        int used = 0;
        for (int i = 0; i < 100; i++) used += sprintf(text + used, "%lu,%g;", numbers[i] & 0xffff, sum);
        memcpy(copy, text, used + 1);
        for (char *at = copy; *at; at = strchr(at, ';') + 1) hash = hash * 31 + strlen(at);
    }
    return hash ^ (uint64_t)(sum * 1000);
}

int main(void) {
    uint64_t expected = compute();
    on_signal(SIGALRM, handler, SA_RESTART);
    struct itimerval timer = {{0, 300}, {0, 300}};
    CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
    while (signals < 300) CHECK_EQ(compute(), expected);
    printf("%016lx under a storm\n", expected);
}
