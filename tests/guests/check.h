// What the guests share: a check that ends the program, and output in whole lines.
//
// A failed check uses only write and _exit, so that it works in signal handlers and in children.
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define CHECK(condition)                                                                \
    do {                                                                                \
        if (!(condition))                                                               \
            check_failed("%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno); \
    } while (0)

#define CHECK_EQ(left, right)                                                           \
    do {                                                                                \
        long long check_left = (long long)(left), check_right = (long long)(right);     \
        if (check_left != check_right)                                                  \
            check_failed("%s:%d: %s is %lld (%#llx), not %lld (%#llx) (errno %d)\n",    \
                         __FILE__, __LINE__, #left, check_left, check_left, check_right, \
                         check_right, errno);                                           \
    } while (0)

// A call that must fail with -1 and this errno.
#define CHECK_FAILS(call, expected)                                                     \
    do {                                                                                \
        errno = 0;                                                                      \
        CHECK_EQ((long)(call), -1);                                                     \
        CHECK_EQ(errno, expected);                                                      \
    } while (0)

__attribute__((unused, cold, noreturn, format(printf, 1, 2))) static void
check_failed(const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof text - 1) length = sizeof text - 1;
    if (write(2, text, length) < 0) _exit(98);
    _exit(99);
}

// Whether the name of a mapping is that of a file of the translator. Only the last part of a path counts: the
// directory of these tests may have any name.
__attribute__((unused)) static int is_translators(const char *name) {
    const char *last = strrchr(name, '/');
    return last && strstr(last, "retro");
}

// Whole lines: a fork never copies half a buffer, and what was said survives an abrupt end.
__attribute__((constructor, unused)) static void print_whole_lines(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
}

// Installs a handler that takes siginfo and context.
__attribute__((unused)) static void on_signal(int number, void (*handler)(int, siginfo_t *, void *),
                                              int flags) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | flags;
    CHECK_EQ(sigaction(number, &action, NULL), 0);
}

// Waits for a child that must exit by itself, and returns its code.
__attribute__((unused)) static int exit_code_of(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) != child) CHECK_EQ(errno, EINTR);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}
