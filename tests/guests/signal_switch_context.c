// Handlers that switch contexts: a preemptive scheduler that swaps coroutines from a timer, and
// setcontext out of a fault.
#include "check.h"
#include <sys/time.h>

#define TASKS 3
static ucontext_t main_context, tasks[TASKS];
static char stacks[TASKS][65536] __attribute__((aligned(16)));
static volatile long work[TASKS];
static volatile int current, switches, done;

static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    int from = current, to = (current + 1) % TASKS;
    if (++switches >= 60) done = 1;
    current = to;
    swapcontext(&tasks[from], &tasks[to]);
}

// Every switch happens with the signal blocked: swapcontext is not atomic, and a signal in its
// middle would save a half-switched context. Only a task's own code runs with it open.
static void alarm_signal(int how) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    CHECK_EQ(sigprocmask(how, &set, NULL), 0);
}

static void task(int self) {
    work[self]++;
    alarm_signal(SIG_UNBLOCK);
    while (!done) work[self]++;
    alarm_signal(SIG_BLOCK);
    setcontext(&main_context);
}

static ucontext_t after_fault;
static volatile int faulted;
static void on_fault(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    faulted++;
    setcontext(&after_fault);
}

int main(void) {
    on_signal(SIGALRM, handler, 0);
    alarm_signal(SIG_BLOCK);
    for (int i = 0; i < TASKS; i++) {
        getcontext(&tasks[i]);
        tasks[i].uc_stack.ss_sp = stacks[i];
        tasks[i].uc_stack.ss_size = sizeof stacks[i];
        tasks[i].uc_link = NULL;
        makecontext(&tasks[i], (void (*)(void))task, 1, i);
    }
    struct itimerval timer = {{0, 2000}, {0, 2000}}, off = {{0, 0}, {0, 0}};
    CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
    swapcontext(&main_context, &tasks[0]);
    CHECK_EQ(setitimer(ITIMER_REAL, &off, NULL), 0);
    CHECK(switches >= 60);
    for (int i = 0; i < TASKS; i++) CHECK(work[i] > 0);
    puts("every task worked");

    on_signal(SIGSEGV, on_fault, 0);
    getcontext(&after_fault);
    if (faulted < 5) *(volatile int *)0 = 1;
    printf("left %d faults\n", faulted);
}
