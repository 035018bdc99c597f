// A seccomp filter that the program installs for itself: one call fails with the chosen errno,
// one raises SIGSYS with its number, the rest works, in children too.
#include "check.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#ifndef SYS_SECCOMP
#define SYS_SECCOMP 1
#endif

static volatile int trapped;
static void handler(int number, siginfo_t *info, void *context) {
    CHECK_EQ(number, SIGSYS);
    CHECK_EQ(info->si_code, SYS_SECCOMP);
    CHECK_EQ(info->si_syscall, SYS_getpgid);
    CHECK_EQ(info->si_arch, AUDIT_ARCH_X86_64);
    CHECK_EQ((long)info->si_call_addr, ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP]);
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = 4242;
    trapped++;
}

int main(void) {
    on_signal(SIGSYS, handler, 0);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 77),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
    CHECK_FAILS(syscall(SYS_getsid, 0), 77);
    CHECK_EQ(syscall(SYS_getpgid, 0), 4242);
    CHECK_EQ(trapped, 1);
    pid_t child = fork();
    if (child == 0) {
        CHECK_FAILS(syscall(SYS_getsid, 0), 77);
        CHECK_EQ(syscall(SYS_getpgid, 0), 4242);
        _exit(31);
    }
    printf("child exited with %d, %d trapped\n", exit_code_of(child), trapped);
}
