// Signals on their way to a tracee: seen first by its tracer, let through, held back, exchanged, changed; group stops, with
// their ends; system calls that they interrupt.
// build: -O1
#include "trace.h"
#include <time.h>

static volatile sig_atomic_t seen[65], codes[65], values[65];
static void on(int number, siginfo_t *info, void *context) {
    (void)context;
    seen[number]++;
    codes[number] = info->si_code;
    values[number] = info->si_value.sival_int;
}

static int ends[2];

static void tracee(void) {
    int numbers[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGSEGV, SIGILL, SIGRTMIN + 3};
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++)
        on_signal(numbers[i], on, numbers[i] == SIGTERM ? SA_RESTART : 0);
    raise(SIGUSR1);
    CHECK(seen[SIGUSR1] == 1 && codes[SIGUSR1] == SI_TKILL);
    raise(SIGUSR1);
    CHECK_EQ(seen[SIGUSR1], 1);
    raise(SIGUSR1);
    CHECK(seen[SIGUSR1] == 1 && seen[SIGUSR2] == 1 && codes[SIGUSR2] == SI_USER);
    union sigval value = {.sival_int = 5};
    CHECK_EQ(sigqueue(getpid(), SIGRTMIN + 3, value), 0);
    CHECK(seen[SIGRTMIN + 3] == 1 && values[SIGRTMIN + 3] == 6);
    // Ignored ones are seen, too, and so are those that do nothing.
    signal(SIGHUP, SIG_IGN);
    raise(SIGHUP);
    raise(SIGCONT);
    raise(SIGWINCH);
    // A fault that the tracer mends, and one that it hides.
    volatile long zero = 0;
    asm volatile("ud2");
    CHECK_EQ(seen[SIGILL], 0);
    asm volatile("mov (%0), %0" : "+r"(zero)::"memory");
    CHECK_EQ(zero, 77);
    CHECK_EQ(seen[SIGSEGV], 0);
    // A blocked one waits, for the tracer as well.
    sigset_t usr1, old;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, &old);
    raise(SIGUSR1);
    raise(SIGWINCH);
    sigprocmask(SIG_SETMASK, &old, NULL);
    CHECK_EQ(seen[SIGUSR1], 2);
    // Interrupted calls.
    char byte;
    CHECK_EQ(read(ends[0], &byte, 1), 1);
    CHECK_EQ(byte, 'a');
    CHECK_FAILS(read(ends[0], &byte, 1), EINTR);
    CHECK_EQ(seen[SIGUSR2], 2);
    CHECK_EQ(read(ends[0], &byte, 1), 1);
    CHECK_EQ(seen[SIGTERM], 1);
    struct timespec time = {0, 150000000}, before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    CHECK_EQ(nanosleep(&time, NULL), 0);
    clock_gettime(CLOCK_MONOTONIC, &after);
    CHECK((after.tv_sec - before.tv_sec) * 1000000000L + after.tv_nsec - before.tv_nsec >= 150000000);
    raise(SIGSTOP);
    raise(SIGTSTP);
    kill(getpid(), SIGQUIT);
}

static int next(pid_t child, int signal) {
    go_on(child, PTRACE_CONT, signal);
    return stop_of(child);
}

static void stays_stopped(pid_t child) {
    int status;
    usleep(20000);
    CHECK_EQ(waitpid(child, &status, WNOHANG | __WALL), 0);
}

int main(void) {
    CHECK_EQ(pipe(ends), 0);
    pid_t child = traced_child(tracee);
    CHECK_EQ(next(child, 0), SIGUSR1);
    siginfo_t info = signal_of(child);
    CHECK(info.si_signo == SIGUSR1 && info.si_code == SI_TKILL && info.si_pid == child);
    CHECK_EQ(next(child, SIGUSR1), SIGUSR1);
    CHECK_EQ(next(child, 0), SIGUSR1);
    CHECK_EQ(next(child, SIGUSR2), SIGRTMIN + 3);
    info = signal_of(child);
    CHECK(info.si_code == SI_QUEUE && info.si_value.sival_int == 5);
    info.si_value.sival_int = 6;
    CHECK_EQ(ptrace(PTRACE_SETSIGINFO, child, 0, &info), 0);
    CHECK_EQ(next(child, SIGRTMIN + 3), SIGHUP);
    CHECK_EQ(next(child, SIGHUP), SIGCONT);
    CHECK_EQ(next(child, SIGCONT), SIGWINCH);
    CHECK_EQ(next(child, SIGWINCH), SIGILL);
    struct user_regs_struct registers = registers_of(child);
    info = signal_of(child);
    CHECK(info.si_code == ILL_ILLOPN && (unsigned long)info.si_addr == registers.rip);
    CHECK_EQ(ptrace(PTRACE_PEEKTEXT, child, registers.rip, 0) & 0xffff, 0x0b0f);
    registers.rip += 2;
    set_registers(child, &registers);
    CHECK_EQ(next(child, 0), SIGSEGV);
    info = signal_of(child);
    CHECK(info.si_code == SEGV_MAPERR && info.si_addr == NULL);
    // It goes back to the instruction: with another operand it works.
    static long value = 77;
    registers = registers_of(child);
    for (unsigned long *word = (unsigned long *)&registers; word < (unsigned long *)(&registers + 1); word++) {
        if (*word == 0 && (word == &registers.rax || word == &registers.rdx || word == &registers.rcx ||
                           word == &registers.rbx || word == &registers.rsi || word == &registers.rdi || word == &registers.r8))
            *word = (unsigned long)&value;
    }
    set_registers(child, &registers);
    CHECK_EQ(next(child, 0), SIGWINCH);
    puts("through and back");

    unsigned long mask = 0;
    CHECK_EQ(ptrace(PTRACE_GETSIGMASK, child, 8, &mask), 0);
    CHECK_EQ(mask, 1UL << (SIGUSR1 - 1));
    CHECK_EQ(next(child, 0), SIGUSR1);
    go_on(child, PTRACE_CONT, SIGUSR1);
    wait_for_call(child, SYS_read);
    // Held back: the call goes on.
    kill(child, SIGUSR2);
    CHECK_EQ(stop_of(child), SIGUSR2);
    registers = registers_of(child);
    CHECK_EQ((long)registers.rax, -512);
    CHECK_EQ(registers.orig_rax, SYS_read);
    CHECK_EQ(registers.rdi, ends[0]);
    go_on(child, PTRACE_CONT, 0);
    wait_for_call(child, SYS_read);
    CHECK_EQ(write(ends[1], "a", 1), 1);
    usleep(1000);
    wait_for_call(child, SYS_read);
    kill(child, SIGUSR2);
    CHECK_EQ(stop_of(child), SIGUSR2);
    go_on(child, PTRACE_CONT, SIGUSR2);
    wait_for_call(child, SYS_read);
    kill(child, SIGTERM);
    CHECK_EQ(stop_of(child), SIGTERM);
    go_on(child, PTRACE_CONT, SIGTERM);
    wait_for_call(child, SYS_read);
    CHECK_EQ(write(ends[1], "b", 1), 1);
    puts("interrupted");

    usleep(50000);
    kill(child, SIGWINCH);
    CHECK_EQ(stop_of(child), SIGWINCH);
    registers = registers_of(child);
    CHECK_EQ((long)registers.rax, -516);
    CHECK_EQ(next(child, SIGWINCH), SIGSTOP);
    // The stop itself, and what follows from it.
    CHECK_EQ(next(child, SIGSTOP), SIGSTOP);
    CHECK_FAILS(ptrace(PTRACE_GETSIGINFO, child, 0, &info), EINVAL);
    stays_stopped(child);
    CHECK_EQ(next(child, 0), SIGTSTP);
    CHECK_EQ(signal_of(child).si_code, SI_TKILL);
    CHECK_EQ(next(child, 0), SIGQUIT);
    go_on(child, PTRACE_CONT, SIGQUIT);
    int status = status_of(child);
    CHECK(WIFSIGNALED(status));
    printf("killed by %d\n", WTERMSIG(status));
}
