// The default action of every signal, seen by the parent: killed, stopped or ignored.
#include "check.h"
#include <sys/resource.h>

static void die_of(int number) {
    signal(number, SIG_DFL);
    // Real ones where the processor raises them, so that faults take the default path too.
    if (number == SIGSEGV) *(volatile int *)0 = 0;
    if (number == SIGILL) asm volatile("ud2");
    if (number == SIGTRAP) asm volatile("int3");
    if (number == SIGFPE) asm volatile("xor %%ecx, %%ecx; mov $1, %%eax; cltd; idiv %%ecx" ::: "rax", "rcx", "rdx");
    raise(number);
    _exit(0);
}

int main(void) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    for (int number = 1; number <= 64; number++) {
        if (number == 32 || number == 33) continue; // the C library's own
        if (number > 36 && number < 62) continue;
        pid_t child = fork();
        if (child == 0) die_of(number);
        int status;
        CHECK_EQ(waitpid(child, &status, WUNTRACED), child);
        if (WIFSIGNALED(status)) printf("%d: killed by %d\n", number, WTERMSIG(status));
        else if (WIFEXITED(status)) printf("%d: exited with %d\n", number, WEXITSTATUS(status));
        else {
            printf("%d: stopped by %d\n", number, WSTOPSIG(status));
            CHECK_EQ(kill(child, SIGKILL), 0);
            CHECK_EQ(waitpid(child, &status, 0), child);
            CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        }
    }
}
