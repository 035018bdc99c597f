// clone with another exit signal, or none: the parent gets that signal and needs __WALL to wait;
// a raw clone with the vfork flags and no stack, as language runtimes do it.
#include "check.h"
#include <sched.h>

static volatile int got;
static void handler(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    got = number;
}

int main(void) {
    on_signal(SIGUSR1, handler, SA_RESTART);
    on_signal(SIGCHLD, handler, SA_RESTART);
    long child = syscall(SYS_clone, SIGUSR1, 0, 0, 0, 0);
    CHECK(child >= 0);
    if (child == 0) _exit(5);
    int status;
    CHECK_EQ(waitpid(child, &status, __WALL), child);
    CHECK_EQ(WEXITSTATUS(status), 5);
    CHECK_EQ(got, SIGUSR1);
    got = 0;
    child = syscall(SYS_clone, 0, 0, 0, 0, 0);
    if (child == 0) _exit(6);
    CHECK_EQ(waitpid(child, &status, __WCLONE), child);
    CHECK_EQ(WEXITSTATUS(status), 6);
    CHECK_EQ(got, 0);
    puts("exit signals chosen");

    static volatile long shared;
    shared = 0;
    register long flags asm("rdi") = CLONE_VM | CLONE_VFORK | SIGCHLD;
    long result;
    // The child runs on the parent's stack and must leave it alone: it only stores and exits.
    asm volatile("xor %%esi, %%esi; xor %%edx, %%edx; xor %%r10d, %%r10d; xor %%r8d, %%r8d; syscall;"
                 "test %%eax, %%eax; jnz 1f; movq $77, %1; mov $8, %%edi; mov $231, %%eax; syscall; 1:"
                 : "=a"(result), "=m"(shared), "+r"(flags)
                 : "a"(SYS_clone)
                 : "rsi", "rdx", "r10", "r8", "rcx", "r11", "memory", "cc");
    CHECK(result > 0);
    CHECK_EQ(shared, 77);
    printf("raw vfork: %d\n", exit_code_of((pid_t)result));
}
