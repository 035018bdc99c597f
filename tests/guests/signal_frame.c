// The frame a handler gets: arguments, alignment, return address, the red zone left alone, the
// interrupted stack pointer, and what the context says about masks and stacks.
#include "check.h"

long interrupted(long pid, long number);
void raw_handler(int number, siginfo_t *info, void *context);
// A signal is delivered when the system call returns; the red zone must survive it.
asm(".pushsection .text\n"
    "interrupted:\n"
    " movq $0x11, -8(%rsp)\n movq $0x22, -64(%rsp)\n movq $0x33, -128(%rsp)\n"
    " mov $62, %eax\n syscall\n"
    " cmpq $0x11, -8(%rsp)\n jne 1f\n cmpq $0x22, -64(%rsp)\n jne 1f\n cmpq $0x33, -128(%rsp)\n jne 1f\n"
    " ret\n"
    "1: mov $-999, %eax\n ret\n"
    "raw_handler: mov %rsp, %rcx\n jmp handle\n"
    ".popsection");

static volatile int handled;
static long low_stack, high_stack;

__attribute__((used)) void handle(int number, siginfo_t *info, void *context, long *stack) {
    ucontext_t *uc = context;
    CHECK_EQ(number, SIGUSR1);
    CHECK_EQ((long)stack % 16, 8);
    CHECK_EQ((long)context, (long)stack + 8);
    CHECK(info > (siginfo_t *)context);
    greg_t interrupted_stack = uc->uc_mcontext.gregs[REG_RSP];
    CHECK(interrupted_stack > low_stack && interrupted_stack < high_stack);
    CHECK((long)stack < interrupted_stack - 128);
    CHECK_EQ((long)uc->uc_link, 0);
    // Not its flags: exec leaves those of the process that called it.
    CHECK_EQ(uc->uc_stack.ss_size, 0);
    CHECK(sigismember(&uc->uc_sigmask, SIGUSR2));
    CHECK(!sigismember(&uc->uc_sigmask, SIGUSR1));
    CHECK_EQ(uc->uc_mcontext.gregs[REG_RAX], 0);
    CHECK_EQ(uc->uc_mcontext.gregs[REG_RDI], getpid());
    // The return address is the restorer, which calls rt_sigreturn.
    const unsigned char *restorer = (const unsigned char *)stack[0];
    CHECK(memcmp(restorer, "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", 9) == 0);
    sigset_t now;
    CHECK_EQ(sigprocmask(SIG_BLOCK, NULL, &now), 0);
    CHECK(sigismember(&now, SIGUSR1) && sigismember(&now, SIGUSR2));
    handled++;
}

int main(void) {
    int here;
    low_stack = (long)&here - 100000, high_stack = (long)&here + 1000;
    on_signal(SIGUSR1, raw_handler, 0);
    sigset_t block;
    sigemptyset(&block);
    sigaddset(&block, SIGUSR2);
    CHECK_EQ(sigprocmask(SIG_BLOCK, &block, NULL), 0);
    for (int i = 0; i < 10; i++) CHECK_EQ(interrupted(getpid(), SIGUSR1), 0);
    CHECK_EQ(handled, 10);
    puts("10 frames as the kernel makes them");
}
