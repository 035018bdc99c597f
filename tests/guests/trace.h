// What the guests that trace others share.
#pragma once
#include "check.h"
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

// Waits for one tracee and returns its status.
__attribute__((unused)) static int status_of(pid_t tracee) {
    int status;
    pid_t found;
    while ((found = waitpid(tracee, &status, __WALL)) < 0) CHECK_EQ(errno, EINTR);
    CHECK_EQ(found, tracee);
    return status;
}

// Waits for a stop and returns signal and event.
__attribute__((unused)) static int stop_of(pid_t tracee) {
    int status = status_of(tracee);
    if (!WIFSTOPPED(status)) check_failed("%s: no stop but %#x\n", __FILE__, status);
    return status >> 8;
}

__attribute__((unused)) static struct user_regs_struct registers_of(pid_t tracee) {
    struct user_regs_struct registers;
    CHECK_EQ(ptrace(PTRACE_GETREGS, tracee, 0, &registers), 0);
    return registers;
}

__attribute__((unused)) static void set_registers(pid_t tracee, const struct user_regs_struct *registers) {
    CHECK_EQ(ptrace(PTRACE_SETREGS, tracee, 0, registers), 0);
}

__attribute__((unused)) static siginfo_t signal_of(pid_t tracee) {
    siginfo_t info;
    CHECK_EQ(ptrace(PTRACE_GETSIGINFO, tracee, 0, &info), 0);
    return info;
}

__attribute__((unused)) static unsigned long message_of(pid_t tracee) {
    unsigned long message = -1;
    CHECK_EQ(ptrace(PTRACE_GETEVENTMSG, tracee, 0, &message), 0);
    return message;
}

__attribute__((unused)) static void go_on(pid_t tracee, int request, int signal) {
    CHECK_EQ(ptrace(request, tracee, 0, (long)signal), 0);
}

// A child that stops itself before it runs.
__attribute__((unused)) static pid_t traced_child(void (*run)(void)) {
    pid_t child = fork();
    if (child == 0) {
        CHECK_EQ(ptrace(PTRACE_TRACEME, 0, 0, 0), 0);
        raise(SIGSTOP);
        run();
        _exit(0);
    }
    CHECK_EQ(stop_of(child), SIGSTOP);
    return child;
}

// Lets a tracee go on to its end; the exit code.
__attribute__((unused)) static int end_of(pid_t tracee) {
    go_on(tracee, PTRACE_CONT, 0);
    int status = status_of(tracee);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

// Waits until the child sleeps in a system call with this number.
__attribute__((unused)) static void wait_for_call(pid_t child, int number) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/syscall", child);
    for (int tries = 0; tries < 20000; tries++) {
        FILE *file = fopen(path, "r");
        CHECK(file);
        int found = fgets(line, sizeof line, file) && atoi(line) == number && line[0] != 'r';
        fclose(file);
        if (found) return;
        usleep(500);
    }
    check_failed("no call %d: %s\n", number, line);
}
