// Threads interrupted from outside all the time, each on its own alternate stack, as runtimes do
// to preempt: the computation must not notice.
// build: -pthread -O2
#include "check.h"
#include <pthread.h>

#define THREADS 3
static __thread volatile long interrupted;
static volatile int finished;
static int tids[THREADS];

static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    char here;
    stack_t now;
    CHECK_EQ(sigaltstack(NULL, &now), 0);
    CHECK(&here > (char *)now.ss_sp && &here < (char *)now.ss_sp + now.ss_size);
    CHECK(((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] != 0);
    interrupted++;
}

static uint64_t compute(uint64_t seed) {
    uint64_t table[64], hash = seed;
    double sum = 0;
    for (int i = 0; i < 64; i++) table[i] = seed * (i + 1);
    for (int i = 0; i < 150000; i++) {
        hash = (hash ^ table[hash >> 58]) * 0x9e3779b97f4a7c15u;
        table[i & 63] += hash >> 7;
        sum += (double)(hash & 0xffff) * 0.5;
    }
    return hash ^ (uint64_t)sum;
}

static void *work(void *argument) {
    long self = (long)argument;
    stack_t stack = {.ss_sp = malloc(32768), .ss_size = 32768};
    CHECK_EQ(sigaltstack(&stack, NULL), 0);
    __atomic_store_n(&tids[self], gettid(), __ATOMIC_SEQ_CST);
    uint64_t expected = compute(self + 1);
    do CHECK_EQ(compute(self + 1), expected);
    while (interrupted < 200);
    __atomic_add_fetch(&finished, 1, __ATOMIC_SEQ_CST);
    // Stays until the sender is done: its id must not be reused.
    while (__atomic_load_n(&finished, __ATOMIC_SEQ_CST) < THREADS + 1) usleep(1000);
    return (void *)expected;
}

int main(void) {
    on_signal(SIGURG, handler, SA_ONSTACK | SA_RESTART);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    while (__atomic_load_n(&finished, __ATOMIC_SEQ_CST) < THREADS) {
        for (int i = 0; i < THREADS; i++) {
            int tid = __atomic_load_n(&tids[i], __ATOMIC_SEQ_CST);
            if (tid) CHECK_EQ(syscall(SYS_tgkill, getpid(), tid, SIGURG), 0);
        }
        usleep(300);
    }
    __atomic_add_fetch(&finished, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        printf("%016lx\n", (unsigned long)result);
    }
}
