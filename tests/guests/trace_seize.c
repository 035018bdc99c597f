// Seized tracees: no stop to begin with, PTRACE_INTERRUPT, group stops that are listened to, SIGCONT, detaching.
// build: -O1 -pthread
#include "trace.h"
#include <pthread.h>
#include <sched.h>

static volatile unsigned long *counter;

static void *count(void *unused) {
    (void)unused;
    for (;;) counter[1]++;
}

static void spin(void) {
    for (;;) counter[0]++;
}

static void wait_for_change(int which) {
    unsigned long before = counter[which];
    for (int i = 0; counter[which] == before; i++) {
        CHECK(i < 20000);
        usleep(500);
    }
}

static void stands_still(int which) {
    unsigned long before = counter[which];
    usleep(30000);
    CHECK_EQ(counter[which], before);
}

int main(void) {
    counter = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(counter != MAP_FAILED);
    pid_t child = fork();
    if (child == 0) {
        spin();
    }
    wait_for_change(0);
    CHECK_EQ(ptrace(PTRACE_SEIZE, child, 0, PTRACE_O_TRACESYSGOOD), 0);
    wait_for_change(0);
    int status;
    CHECK_EQ(waitpid(child, &status, WNOHANG | __WALL), 0);
    CHECK_FAILS(ptrace(PTRACE_GETREGS, child, 0, &status), ESRCH);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(ptrace(PTRACE_INTERRUPT, child, 0, 0), 0);
        CHECK_EQ(stop_of(child), SIGTRAP | PTRACE_EVENT_STOP << 8);
        CHECK_EQ(signal_of(child).si_code, SIGTRAP | PTRACE_EVENT_STOP << 8);
        struct user_regs_struct registers = registers_of(child);
        CHECK(registers.rip >= (unsigned long)spin && registers.rip < (unsigned long)spin + 64);
        stands_still(0);
        go_on(child, PTRACE_CONT, 0);
        wait_for_change(0);
    }
    puts("interrupted");

    kill(child, SIGSTOP);
    CHECK_EQ(stop_of(child), SIGSTOP);
    CHECK_EQ(signal_of(child).si_pid, getpid());
    go_on(child, PTRACE_CONT, SIGSTOP);
    CHECK_EQ(stop_of(child), SIGSTOP | PTRACE_EVENT_STOP << 8);
    CHECK_EQ(ptrace(PTRACE_LISTEN, child, 0, 0), 0);
    CHECK_FAILS(ptrace(PTRACE_CONT, child, 0, 0), ESRCH);
    stands_still(0);
    CHECK_EQ(waitpid(child, &status, WNOHANG | __WALL), 0);
    kill(child, SIGCONT);
    CHECK_EQ(stop_of(child), SIGTRAP | PTRACE_EVENT_STOP << 8);
    go_on(child, PTRACE_CONT, 0);
    CHECK_EQ(stop_of(child), SIGCONT);
    go_on(child, PTRACE_CONT, SIGCONT);
    wait_for_change(0);
    puts("listened");

    CHECK_EQ(ptrace(PTRACE_INTERRUPT, child, 0, 0), 0);
    CHECK_EQ(stop_of(child), SIGTRAP | PTRACE_EVENT_STOP << 8);
    CHECK_EQ(ptrace(PTRACE_DETACH, child, 0, 0), 0);
    wait_for_change(0);
    CHECK_FAILS(ptrace(PTRACE_CONT, child, 0, 0), ESRCH);
    kill(child, SIGTERM);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(WTERMSIG(status), SIGTERM);
    puts("detached");

    // Two threads, stopped by one signal.
    child = fork();
    if (child == 0) {
        pthread_t thread;
        CHECK_EQ(ptrace(PTRACE_TRACEME, 0, 0, 0), 0);
        raise(SIGSTOP);
        CHECK_EQ(pthread_create(&thread, NULL, count, NULL), 0);
        spin();
    }
    CHECK_EQ(stop_of(child), SIGSTOP);
    CHECK_EQ(ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL), 0);
    go_on(child, PTRACE_CONT, 0);
    CHECK_EQ(stop_of(child), SIGTRAP | PTRACE_EVENT_CLONE << 8);
    pid_t thread = message_of(child);
    CHECK_EQ(stop_of(thread), SIGSTOP);
    go_on(child, PTRACE_CONT, 0);
    go_on(thread, PTRACE_CONT, 0);
    wait_for_change(0);
    wait_for_change(1);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(syscall(SYS_tgkill, child, thread, SIGSTOP), 0);
        CHECK_EQ(stop_of(thread), SIGSTOP);
        stands_still(1);
        wait_for_change(0);
        go_on(thread, PTRACE_CONT, SIGSTOP);
        // Both stop.
        CHECK_EQ(stop_of(child), SIGSTOP);
        CHECK_EQ(stop_of(thread), SIGSTOP);
        stands_still(0);
        stands_still(1);
        struct user_regs_struct registers = registers_of(child);
        CHECK(registers.rip >= (unsigned long)spin && registers.rip < (unsigned long)spin + 64);
        go_on(thread, PTRACE_CONT, 0);
        wait_for_change(1);
        stands_still(0);
        go_on(child, PTRACE_CONT, 0);
        wait_for_change(0);
    }
    puts("both stopped");
}
