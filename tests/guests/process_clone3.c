// clone3: its structure and sizes, a descriptor for the child, its own stack, signals cleared,
// and the errors of bad arguments.
#include "check.h"
#include <linux/sched.h>
#include <poll.h>

static long clone3(struct clone_args *arguments, size_t size) { return syscall(SYS_clone3, arguments, size); }

// A child on its own stack must not return through the caller's frame: it exits here.
long clone3_on_stack(struct clone_args *arguments, size_t size);
asm(".pushsection .text\n"
    "clone3_on_stack: mov $435, %eax\n syscall\n test %rax, %rax\n jz 1f\n ret\n"
    "1: mov %rsp, %rdi\n and $-16, %rsp\n call on_own_stack\n"
    " mov %eax, %edi\n mov $231, %eax\n syscall\n hlt\n"
    ".popsection");
static char stack[65536] __attribute__((aligned(16)));

__attribute__((used)) int on_own_stack(char *pointer) { return pointer == stack + sizeof stack ? 25 : 1; }

static void handler(int number) { (void)number; }

int main(void) {
    int descriptor = -1, parent_tid = 0;
    struct clone_args arguments;
    memset(&arguments, 0, sizeof arguments);
    arguments.flags = CLONE_PIDFD | CLONE_PARENT_SETTID;
    arguments.pidfd = (uint64_t)&descriptor;
    arguments.parent_tid = (uint64_t)&parent_tid;
    arguments.exit_signal = SIGCHLD;
    long child = clone3(&arguments, sizeof arguments);
    CHECK(child >= 0);
    if (child == 0) _exit(24);
    CHECK_EQ(parent_tid, child);
    struct pollfd entry = {.fd = descriptor, .events = POLLIN};
    CHECK_EQ(poll(&entry, 1, 20000), 1);
    printf("like fork: %d\n", exit_code_of((pid_t)child));

    memset(&arguments, 0, sizeof arguments);
    arguments.exit_signal = SIGCHLD;
    arguments.stack = (uint64_t)stack;
    arguments.stack_size = sizeof stack;
    child = clone3_on_stack(&arguments, sizeof arguments);
    CHECK(child > 0);
    printf("own stack: %d\n", exit_code_of((pid_t)child));

    signal(SIGUSR1, handler);
    memset(&arguments, 0, sizeof arguments);
    arguments.exit_signal = SIGCHLD;
    arguments.flags = CLONE_CLEAR_SIGHAND;
    child = clone3(&arguments, sizeof arguments);
    CHECK(child >= 0);
    if (child == 0) {
        struct sigaction action;
        sigaction(SIGUSR1, NULL, &action);
        _exit(action.sa_handler == SIG_DFL ? 26 : 1);
    }
    printf("handlers cleared: %d\n", exit_code_of((pid_t)child));

    CHECK_FAILS(clone3(&arguments, 8), EINVAL);
    CHECK_FAILS(clone3((struct clone_args *)8, sizeof arguments), EFAULT);
    arguments.flags = CLONE_THREAD;
    CHECK_FAILS(clone3(&arguments, sizeof arguments), EINVAL);
    arguments.flags = 0;
    arguments.stack_size = 100;
    CHECK_FAILS(clone3(&arguments, sizeof arguments), EINVAL);
    puts("errors as documented");
}
