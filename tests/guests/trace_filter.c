// Filters that ask the tracer: it sees the call before it is made, may change it or leave it out; without a tracer there is none.
// build: -O1
#include "trace.h"
#include <linux/filter.h>
#include <linux/ptrace.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#define EVENT (SIGTRAP | PTRACE_EVENT_SECCOMP << 8)

static void filter(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execve, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | 0x1234),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void tracee(void) {
    filter();
    CHECK_EQ(getppid(), getpid());
    CHECK_EQ(syscall(SYS_getppid), -1);
    CHECK_EQ(errno, ENOSYS);
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    page[0] = 1;
    execl("/proc/self/exe", "again", "again", NULL);
    _exit(99);
}

static struct user_regs_struct next(pid_t child, long number) {
    go_on(child, PTRACE_CONT, 0);
    CHECK_EQ(stop_of(child), EVENT);
    CHECK_EQ(message_of(child), 0x1234);
    struct user_regs_struct registers = registers_of(child);
    CHECK_EQ(registers.orig_rax, number);
    CHECK_EQ(registers.rax, (unsigned long)-ENOSYS);
    struct ptrace_syscall_info info;
    CHECK(ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info) >= 84);
    CHECK(info.op == PTRACE_SYSCALL_INFO_SECCOMP && info.seccomp.nr == (unsigned long)number);
    CHECK_EQ(info.seccomp.ret_data, 0x1234);
    return registers;
}

int main(int count, char **arguments) {
    (void)arguments;
    if (count > 1) {
        CHECK_EQ(getppid(), 17);
        return 5;
    }
    pid_t child = traced_child(tracee);
    CHECK_EQ(ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESECCOMP | PTRACE_O_TRACESYSGOOD), 0);
    struct user_regs_struct registers = next(child, SYS_getppid);
    registers.orig_rax = SYS_getpid;
    set_registers(child, &registers);
    registers = next(child, SYS_getppid);
    registers.orig_rax = -1;
    set_registers(child, &registers);
    next(child, SYS_mmap);
    next(child, SYS_execve);
    go_on(child, PTRACE_CONT, 0);
    CHECK_EQ(stop_of(child), SIGTRAP);
    puts("asked");
    for (;;) {
        go_on(child, PTRACE_CONT, 0);
        CHECK_EQ(stop_of(child), EVENT);
        registers = registers_of(child);
        if (registers.orig_rax == SYS_getppid) break;
        CHECK_EQ(registers.orig_rax, SYS_mmap);
    }
    registers.orig_rax = -1;
    registers.rax = 17;
    set_registers(child, &registers);
    CHECK_EQ(end_of(child), 5);
    puts("executed");
    child = fork();
    if (child == 0) {
        filter();
        CHECK_FAILS(syscall(SYS_getppid), ENOSYS);
        CHECK_FAILS(syscall(SYS_execve, "/bin/true", NULL, NULL), ENOSYS);
        _exit(6);
    }
    CHECK_EQ(exit_code_of(child), 6);
    puts("nobody to ask");
}
