/* Threads, handlers of signals on the usual stack and on another, callbacks from libc, recursion, deep libc frames. */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum kind { EMPTY, SMALL = 3, LARGE };

struct record {
    struct record *next;
    enum kind kind;
    unsigned bits : 5;
    int balance : 11;
    char name[16];
    union { uint64_t number; double real; unsigned char bytes[8]; } value;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct record *list;
static volatile sig_atomic_t handled;
static double table[8] = {0.5, -1.25, 1e300, 0.1};
int counters[3][4];
static char alternate[65536];

static int by_value(const void *one, const void *other) {
    const struct record *a = *(struct record *const *)one, *b = *(struct record *const *)other;
    int order = (a->value.number > b->value.number) - (a->value.number < b->value.number);
    return order ? order : strcmp(a->name, b->name);
}

__attribute__((noinline)) static long ackermann(long m, long n) {
    if (m == 0)
        return n + 1;
    long inner = n ? ackermann(m, n - 1) : 1;
    return ackermann(m - 1, inner);
}

static void handler(int number, siginfo_t *info, void *context) {
    int sum = 0;
    for (int i = 0; i < 40; i++)
        sum += alternate[i] + i * number;
    handled += sum > 0;
    (void)info;
    (void)context;
}

static void *work(void *argument) {
    long id = (long)(intptr_t)argument;
    for (int i = 0; i < 40; i++) {
        struct record *record = calloc(1, sizeof *record);
        record->kind = i % 3 ? SMALL : LARGE;
        record->bits = i;
        record->balance = -i * (int)id;
        snprintf(record->name, sizeof record->name, "record %ld.%d", id, i);
        if (i % 2)
            record->value.real = sqrt(i) * table[i % 8];
        else
            record->value.number = (uint64_t)i << 33;
        pthread_mutex_lock(&lock);
        record->next = list;
        list = record;
        counters[id % 3][i % 4]++;
        pthread_mutex_unlock(&lock);
        if (i == 20)
            pthread_kill(pthread_self(), id % 2 ? SIGUSR1 : SIGUSR2);
    }
    return list;
}

int main(int argc, char **argv) {
    stack_t stack = {.ss_sp = alternate + 1024, .ss_size = sizeof alternate - 1024};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &action, NULL);
    action.sa_flags |= SA_ONSTACK;
    sigaction(SIGUSR2, &action, NULL);
    pthread_t threads[3];
    for (long id = 0; id < 3; id++)
        pthread_create(&threads[id], NULL, work, (void *)(intptr_t)id);
    long value = ackermann(2, 9 + argc);
    raise(SIGUSR1);
    raise(SIGUSR2);
    for (int id = 0; id < 3; id++)
        pthread_join(threads[id], NULL);
    struct record *all[120];
    size_t count = 0;
    for (struct record *record = list; record; record = record->next)
        all[count++] = record;
    qsort(all, count, sizeof *all, by_value);
    char line[256] = "";
    for (size_t i = 0; i < count; i += 10)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%s;", all[i]->name);
    struct tm date;
    time_t when = 86400 * 365;
    gmtime_r(&when, &date);
    strftime(line + strlen(line), 40, " %Y-%m-%d", &date);
    printf("%s %ld %zu %d %s\n", argv[0] ? "done" : "", value, count, (int)handled, line);
    return 0;
}
