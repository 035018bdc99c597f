// rt_sigreturn with a frame that the kernel did not make: copied elsewhere, edited, used from
// ordinary code, with and without floating-point state.
#include "check.h"

static ucontext_t captured;
static unsigned char fpstate[16384] __attribute__((aligned(64)));
static volatile int arrived;
static unsigned long arrived_rbx, arrived_r15, arrived_stack;
static unsigned char new_stack[65536] __attribute__((aligned(16)));

void return_to(ucontext_t *frame);
void landing(void);
asm(".pushsection .text\n"
    "return_to: mov %rdi, %rsp\n mov $15, %eax\n syscall\n ud2\n"
    "landing: mov %rbx, %rdi\n mov %r15, %rsi\n mov %rsp, %rdx\n and $-16, %rsp\n call landed\n ud2\n"
    ".popsection");

static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ucontext_t *uc = context;
    memcpy(&captured, uc, sizeof captured);
    unsigned size;
    memcpy(&size, (char *)uc->uc_mcontext.fpregs + 464 + 4, 4);
    CHECK(size <= sizeof fpstate);
    memcpy(fpstate, uc->uc_mcontext.fpregs, size ? size : 512);
}

__attribute__((used)) void landed(unsigned long rbx, unsigned long r15, unsigned long stack) {
    arrived_rbx = rbx, arrived_r15 = r15, arrived_stack = stack;
    arrived++;
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    CHECK(sigismember(&mask, SIGHUP));
    CHECK_EQ(rbx, 0x1234567890);
    CHECK_EQ(r15, 0xfedcba);
    CHECK_EQ(stack, (long)(new_stack + 60000));
    if (arrived < 5) {
        if (arrived >= 3) captured.uc_mcontext.fpregs = NULL;
        return_to(&captured);
    }
    printf("landed %d times\n", arrived);
    exit(0);
}

int main(void) {
    on_signal(SIGUSR1, handler, 0);
    raise(SIGUSR1);
    captured.uc_mcontext.gregs[REG_RIP] = (greg_t)landing;
    captured.uc_mcontext.gregs[REG_RSP] = (greg_t)(new_stack + 60000);
    captured.uc_mcontext.gregs[REG_RBX] = 0x1234567890;
    captured.uc_mcontext.gregs[REG_R15] = 0xfedcba;
    captured.uc_mcontext.fpregs = (void *)fpstate;
    sigaddset(&captured.uc_sigmask, SIGHUP);
    return_to(&captured);
}
