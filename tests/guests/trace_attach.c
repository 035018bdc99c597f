// Attaching to what runs: in a loop, in a system call, stopped, with threads; detaching; a tracer that ends; gone tracees.
// build: -O1 -pthread
#include "trace.h"
#include <pthread.h>
#include <sched.h>

static volatile unsigned long *counter;
static int ends[2];

static void spin(int which) {
    for (;;) counter[which]++;
}

static void *count(void *which) {
    spin((long)which);
    return NULL;
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

static pid_t start(void (*run)(void)) {
    pid_t child = fork();
    if (child == 0) {
        run();
        _exit(0);
    }
    return child;
}

static void loop(void) { spin(0); }
static void sleeper(void) {
    char byte;
    CHECK_EQ(read(ends[0], &byte, 1), 1);
    _exit(byte);
}
static void threads(void) {
    pthread_t thread;
    for (long i = 1; i < 4; i++) CHECK_EQ(pthread_create(&thread, NULL, count, (void *)i), 0);
    spin(0);
}

static void finish(pid_t child) {
    kill(child, SIGKILL);
    int status = status_of(child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static int threads_of(pid_t process, pid_t *found) {
    char path[64], line[512];
    int number = 0;
    for (int id = process; id < process + 200 && number < 8; id++) {
        snprintf(path, sizeof path, "/proc/%d/task/%d/stat", process, id);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        if (fgets(line, sizeof line, file)) found[number++] = id;
        fclose(file);
    }
    return number;
}

int main(void) {
    counter = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(counter != MAP_FAILED);
    CHECK_EQ(pipe(ends), 0);
    pid_t child = start(loop);
    wait_for_change(0);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(ptrace(PTRACE_ATTACH, child, 0, 0), 0);
        CHECK_EQ(stop_of(child), SIGSTOP);
        stands_still(0);
        struct user_regs_struct registers = registers_of(child);
        CHECK(registers.rip >= (unsigned long)spin && registers.rip < (unsigned long)spin + 64);
        CHECK_EQ(registers.orig_rax, (unsigned long)-1);
        CHECK_EQ(ptrace(PTRACE_DETACH, child, 0, 0), 0);
        wait_for_change(0);
    }
    finish(child);
    puts("in a loop");

    child = start(sleeper);
    wait_for_call(child, SYS_read);
    CHECK_EQ(ptrace(PTRACE_ATTACH, child, 0, 0), 0);
    CHECK_EQ(stop_of(child), SIGSTOP);
    struct user_regs_struct registers = registers_of(child);
    CHECK((long)registers.rax == -512 && registers.orig_rax == SYS_read && (int)registers.rdi == ends[0]);
    // A tracer that wants to call something else: the call is not made again.
    struct user_regs_struct changed = registers;
    changed.orig_rax = -1;
    changed.rax = 1;
    char byte = 7;
    long word = ptrace(PTRACE_PEEKDATA, child, registers.rsi, 0);
    CHECK_EQ(ptrace(PTRACE_POKEDATA, child, registers.rsi, (word & ~0xffL) | byte), 0);
    set_registers(child, &changed);
    CHECK_EQ(end_of(child), 7);
    puts("in a call");

    child = start(loop);
    wait_for_change(0);
    kill(child, SIGSTOP);
    int status;
    CHECK_EQ(waitpid(child, &status, WUNTRACED), child);
    CHECK(WIFSTOPPED(status));
    CHECK_EQ(ptrace(PTRACE_ATTACH, child, 0, 0), 0);
    CHECK_EQ(stop_of(child), SIGSTOP);
    registers = registers_of(child);
    CHECK(registers.rip >= (unsigned long)spin && registers.rip < (unsigned long)spin + 64);
    go_on(child, PTRACE_CONT, 0);
    // The one that attaching sends may come, too.
    usleep(20000);
    if (waitpid(child, &status, WNOHANG) == child) go_on(child, PTRACE_CONT, 0);
    wait_for_change(0);
    finish(child);
    puts("stopped");

    child = start(threads);
    for (int i = 0; i < 4; i++) wait_for_change(i);
    pid_t found[8];
    int number = threads_of(child, found);
    CHECK_EQ(number, 4);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < number; i++) CHECK_EQ(ptrace(PTRACE_ATTACH, found[i], 0, 0), 0);
        for (int i = 0; i < number; i++) CHECK_EQ(stop_of(found[i]), SIGSTOP);
        for (int i = 0; i < 4; i++) stands_still(i);
        for (int i = 0; i < number; i++) {
            registers = registers_of(found[i]);
            CHECK(registers.rip >= (unsigned long)spin && registers.rip < (unsigned long)spin + 64);
        }
        for (int i = number - 1; i >= 0; i--) CHECK_EQ(ptrace(PTRACE_DETACH, found[i], 0, 0), 0);
        for (int i = 0; i < 4; i++) wait_for_change(i);
    }
    finish(child);
    puts("threads");

    // The tracer ends, with its tracee stopped.
    child = start(loop);
    wait_for_change(0);
    pid_t tracer = fork();
    if (tracer == 0) {
        CHECK_EQ(ptrace(PTRACE_ATTACH, child, 0, 0), 0);
        CHECK_EQ(stop_of(child), SIGSTOP);
        stands_still(0);
        _exit(1);
    }
    CHECK_EQ(exit_code_of(tracer), 1);
    wait_for_change(0);
    tracer = fork();
    if (tracer == 0) {
        CHECK_EQ(ptrace(PTRACE_SEIZE, child, 0, PTRACE_O_EXITKILL), 0);
        _exit(1);
    }
    CHECK_EQ(exit_code_of(tracer), 1);
    status = status_of(child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    puts("a tracer that ends");

    CHECK_FAILS(ptrace(PTRACE_ATTACH, child, 0, 0), ESRCH);
    CHECK_FAILS(ptrace(PTRACE_ATTACH, getpid(), 0, 0), EPERM);
    CHECK_FAILS(ptrace(PTRACE_GETREGS, child, 0, &registers), ESRCH);
    CHECK_FAILS(ptrace(12345, child, 0, 0), ESRCH);
    puts("nobody");
}
