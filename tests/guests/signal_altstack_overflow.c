// A stack overflow is handled on the alternate stack, and the program recovers from it twice.
#include "check.h"
#include <setjmp.h>
#include <sys/resource.h>

static sigjmp_buf recover;
static char stack[65536] __attribute__((aligned(16)));
static volatile long faults;
static char *top;
static volatile int no_limit = -1;

static void handler(int number, siginfo_t *info, void *context) {
    CHECK_EQ(number, SIGSEGV);
    char here;
    CHECK(&here > stack && &here < stack + sizeof stack);
    ucontext_t *uc = context;
    CHECK_EQ((long)uc->uc_stack.ss_sp, (long)stack);
    // The address lies near the stack pointer, a stack's size below main.
    long distance = (char *)info->si_addr - (char *)uc->uc_mcontext.gregs[REG_RSP];
    CHECK(distance > -70000 && distance < 70000);
    CHECK(top - (char *)info->si_addr > 500000);
    faults++;
    siglongjmp(recover, 1);
}

__attribute__((noinline)) static int recurse(int depth) {
    volatile char space[4000];
    space[0] = depth;
    space[3999] = depth;
    if (depth == no_limit) return 0;
    return recurse(depth + 1) + space[0] + space[3999];
}

int main(void) {
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_STACK, &limit), 0);
    limit.rlim_cur = 1 << 20;
    CHECK_EQ(setrlimit(RLIMIT_STACK, &limit), 0);
    char here;
    top = &here;
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack}, old;
    CHECK_EQ(sigaltstack(&alternate, &old), 0);
    CHECK_EQ(old.ss_flags, SS_DISABLE);
    on_signal(SIGSEGV, handler, SA_ONSTACK);
    for (volatile int i = 0; i < 2; i++)
        if (sigsetjmp(recover, 1) == 0) recurse(0);
    printf("recovered from %ld overflows\n", faults);

    // Without an alternate stack there is nowhere to run the handler.
    pid_t child = fork();
    if (child == 0) {
        alternate.ss_flags = SS_DISABLE;
        CHECK_EQ(sigaltstack(&alternate, NULL), 0);
        recurse(0);
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status));
    printf("without it: signal %d\n", WTERMSIG(status));
}
