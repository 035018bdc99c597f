// A signal that a thread sends to itself is handled before the sending call returns to it; the
// siginfo says how it was sent.
#include "check.h"

long kill_and_look(long call, long a, long b, long c, volatile int *flag);
// The flag is read by the instruction right after the system call.
asm(".pushsection .text\n"
    "kill_and_look: mov %rdi, %rax\n mov %rsi, %rdi\n mov %rdx, %rsi\n mov %rcx, %rdx\n"
    " syscall\n mov (%r8), %ecx\n test %rax, %rax\n js 1f\n movslq %ecx, %rax\n1: ret\n"
    ".popsection");

static volatile int flag, code;
static void handler(int number, siginfo_t *info, void *context) {
    (void)context;
    flag = number;
    code = info->si_code;
    CHECK_EQ(info->si_pid, getpid());
    CHECK_EQ(info->si_uid, getuid());
}

int main(void) {
    on_signal(SIGUSR1, handler, 0);
    on_signal(SIGRTMIN + 2, handler, 0);
    for (int i = 0; i < 200; i++) {
        flag = 0;
        CHECK_EQ(kill_and_look(SYS_kill, getpid(), SIGUSR1, 0, &flag), SIGUSR1);
        CHECK_EQ(code, SI_USER);
        flag = 0;
        CHECK_EQ(kill_and_look(SYS_tkill, gettid(), SIGUSR1, 0, &flag), SIGUSR1);
        CHECK_EQ(code, SI_TKILL);
        flag = 0;
        CHECK_EQ(kill_and_look(SYS_tgkill, getpid(), gettid(), SIGRTMIN + 2, &flag), SIGRTMIN + 2);
        CHECK_EQ(code, SI_TKILL);
        flag = 0;
        siginfo_t info = {.si_signo = SIGUSR1, .si_code = -77};
        info.si_pid = getpid(), info.si_uid = getuid();
        CHECK_EQ(kill_and_look(SYS_rt_sigqueueinfo, getpid(), SIGUSR1, (long)&info, &flag), SIGUSR1);
        CHECK_EQ(code, -77);
    }
    CHECK_FAILS(kill(getpid(), 65), EINVAL);
    CHECK_FAILS(kill(0x7ffffff0, SIGUSR1), ESRCH);
    CHECK_EQ(kill(getpid(), 0), 0);
    puts("handled before the call returned");
}
