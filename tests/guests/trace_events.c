// Events of a tracee: fork, vfork and its end, threads, exec with and without the event, exit; what the kernel attaches.
// build: -O1 -pthread
#include "trace.h"
#include <pthread.h>
#include <spawn.h>
#define EVENT(name) (SIGTRAP | PTRACE_EVENT_##name << 8)

extern char **environ;
static char self[4096];

static void *in_thread(void *unused) {
    (void)unused;
    return (void *)5L;
}

static void tracee(void) {
    pid_t child = fork();
    if (child == 0) _exit(3);
    CHECK_EQ(exit_code_of(child), 3);
    child = vfork();
    if (child == 0) _exit(4);
    CHECK_EQ(exit_code_of(child), 4);
    pthread_t thread;
    void *result;
    CHECK_EQ(pthread_create(&thread, NULL, in_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, &result), 0);
    CHECK_EQ((long)result, 5);
    char *arguments[] = {"again", "6", NULL};
    CHECK_EQ(posix_spawn(&child, self, NULL, NULL, arguments, environ), 0);
    CHECK_EQ(exit_code_of(child), 6);
    char *last[] = {"again", "7", NULL};
    execv(self, last);
    _exit(99);
}

static pid_t step_on(pid_t tracee, int expected) {
    go_on(tracee, PTRACE_CONT, 0);
    int stop = stop_of(tracee);
    if (stop == SIGCHLD) {
        go_on(tracee, PTRACE_CONT, SIGCHLD);
        stop = stop_of(tracee);
    }
    CHECK_EQ(stop, expected);
    return message_of(tracee);
}

// A new tracee stops first of all.
static void begins(pid_t tracee) { CHECK_EQ(stop_of(tracee), SIGSTOP); }

static void ends(pid_t tracee, int code) {
    go_on(tracee, PTRACE_CONT, 0);
    CHECK_EQ(stop_of(tracee), EVENT(EXIT));
    CHECK_EQ(message_of(tracee), code << 8);
    go_on(tracee, PTRACE_CONT, 0);
    int status = status_of(tracee);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == code);
}

static void plain_exec(void) {
    char *arguments[] = {"again", "8", NULL};
    execv(self, arguments);
}

static void exec_without_event(int request) {
    pid_t child = traced_child(plain_exec);
    for (;;) {
        go_on(child, request, 0);
        CHECK_EQ(stop_of(child), SIGTRAP);
        struct user_regs_struct registers = registers_of(child);
        if (request == PTRACE_CONT) break;
        if (registers.orig_rax != SYS_execve) continue;
        CHECK_EQ(registers.rax, (unsigned long)-ENOSYS);
        go_on(child, request, 0);
        CHECK_EQ(stop_of(child), SIGTRAP);
        CHECK_EQ(registers_of(child).rax, 0);
        // The end of the call, then the signal.
        go_on(child, request, 0);
        CHECK_EQ(stop_of(child), SIGTRAP);
        break;
    }
    siginfo_t info = signal_of(child);
    CHECK_EQ(info.si_code, SI_USER);
    struct user_regs_struct registers = registers_of(child);
    CHECK_EQ(registers.orig_rax, SYS_execve);
    CHECK(registers.rax == 0 && registers.rbx == 0 && registers.r15 == 0 && registers.rbp == 0);
    // The stack of a program that starts.
    CHECK_EQ(ptrace(PTRACE_PEEKDATA, child, registers.rsp, 0), 2);
    CHECK_EQ(end_of(child), 8);
}

int main(int count, char **arguments) {
    if (count > 1) return atoi(arguments[1]);
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    pid_t tracer = getpid();
    pid_t child = traced_child(tracee);
    CHECK_EQ(ptrace(PTRACE_SETOPTIONS, child, 0,
                    PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC |
                        PTRACE_O_TRACEVFORKDONE | PTRACE_O_TRACEEXIT),
             0);
    pid_t other = step_on(child, EVENT(FORK));
    struct user_regs_struct registers = registers_of(child);
    CHECK(registers.rax == (unsigned long)-ENOSYS && (registers.orig_rax == SYS_clone || registers.orig_rax == SYS_fork));
    CHECK_EQ(signal_of(child).si_code, EVENT(FORK));
    begins(other);
    CHECK_EQ(registers_of(other).rax, 0);
    CHECK_EQ(registers_of(other).rip, registers.rip);
    CHECK_EQ(registers_of(other).rsp, registers.rsp);
    ends(other, 3);
    puts("fork");

    other = step_on(child, EVENT(VFORK));
    begins(other);
    go_on(child, PTRACE_CONT, 0);
    usleep(10000);
    int status;
    CHECK_EQ(waitpid(child, &status, WNOHANG | __WALL), 0);
    ends(other, 4);
    CHECK_EQ(stop_of(child), EVENT(VFORK_DONE));
    CHECK_EQ(message_of(child), other);
    puts("vfork");

    other = step_on(child, EVENT(CLONE));
    begins(other);
    CHECK_EQ(registers_of(other).rax, 0);
    go_on(other, PTRACE_CONT, 0);
    CHECK_EQ(stop_of(other), EVENT(EXIT));
    CHECK_EQ(registers_of(other).orig_rax, SYS_exit);
    go_on(other, PTRACE_CONT, 0);
    status = status_of(other);
    CHECK(WIFEXITED(status));
    puts("thread");

    other = step_on(child, EVENT(VFORK));
    begins(other);
    go_on(child, PTRACE_CONT, 0);
    go_on(other, PTRACE_CONT, 0);
    CHECK_EQ(stop_of(other), EVENT(EXEC));
    CHECK_EQ(message_of(other), other);
    CHECK_EQ(registers_of(other).orig_rax, SYS_execve);
    CHECK_EQ(stop_of(child), EVENT(VFORK_DONE));
    ends(other, 6);
    puts("spawn");

    CHECK_EQ(step_on(child, EVENT(EXEC)), child);
    ends(child, 7);
    puts("exec");

    exec_without_event(PTRACE_CONT);
    exec_without_event(PTRACE_SYSCALL);
    puts("exec without event");

    // Killed by a signal that somebody sends: told before the end.
    child = traced_child(tracee);
    CHECK_EQ(ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACEEXIT), 0);
    go_on(child, PTRACE_CONT, SIGTERM);
    CHECK_EQ(stop_of(child), EVENT(EXIT));
    CHECK_EQ(message_of(child), SIGTERM);
    go_on(child, PTRACE_CONT, 0);
    status = status_of(child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    CHECK_EQ(getpid(), tracer);
    puts("killed");
}
