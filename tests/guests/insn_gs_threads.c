// Every thread has its own GS base, signals and system calls leave it alone, a child inherits it.
// build: -pthread
#include "check.h"
#include <asm/prctl.h>
#include <pthread.h>
#include <sys/time.h>

static volatile int signals;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    // The handler runs with the interrupted thread's GS base.
    long magic;
    asm volatile("mov %%gs:0, %0" : "=r"(magic));
    CHECK(magic >= 1000 && magic < 1100);
    signals++;
}

static void *work(void *argument) {
    long block[4] = {1000 + (long)argument, 0, 0, 0};
    CHECK_EQ(syscall(SYS_arch_prctl, ARCH_SET_GS, block), 0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    for (int i = 0; i < 20000 || signals < 20; i++) {
        asm volatile("incq %gs:8");
        if (i % 1000 == 0) sched_yield();
        if (i == 20000) usleep(1000), i--;
    }
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    long magic;
    asm volatile("mov %%gs:0, %0" : "=r"(magic));
    CHECK_EQ(magic, 1000 + (long)argument);
    CHECK(block[1] >= 20000);
    return NULL;
}

int main(void) {
    on_signal(SIGALRM, handler, SA_RESTART);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    static long block[2] = {1050, 0};
    CHECK_EQ(syscall(SYS_arch_prctl, ARCH_SET_GS, block), 0);
    pid_t child = fork();
    long magic;
    asm volatile("mov %%gs:0, %0" : "=r"(magic));
    if (child == 0) _exit(magic == 1050 ? 27 : 1);
    printf("child %d\n", exit_code_of(child));
    CHECK_EQ(magic, 1050);
}
