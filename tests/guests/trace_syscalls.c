// A tracer at the system calls of its tracee: numbers, arguments and results as seen, changed, skipped and emulated.
// build: -O1
#include "trace.h"
#include <linux/audit.h>
#include <linux/ptrace.h>
#define STOP (SIGTRAP | 0x80)

extern char call_end[];
static long raw_call(long number, long a, long b, long c) {
    long result;
    asm volatile("syscall\ncall_end:" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

static __attribute__((noinline)) long call(long number, long a, long b, long c) { return raw_call(number, a, b, c); }

static char buffer[16];

static void calls(void) {
    CHECK_EQ(call(SYS_getuid, 0x11, 0x22, 0x33), getuid());
    // The tracer makes it another one, with other arguments.
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(call(SYS_write, ends[1], (long)"abcdef", 6), 6);
    CHECK_EQ(call(SYS_getpid, 1, 2, 3), 4);
    CHECK_EQ(memcmp(buffer, "abcd", 5), 0);
    // It is not made at all, or comes back with something else.
    CHECK_EQ(call(SYS_exit_group, 9, 0, 0), -ENOSYS);
    CHECK_EQ(call(SYS_exit_group, 9, 0, 0), 4711);
    CHECK_EQ(call(SYS_getppid, 0, 0, 0), -EXDEV);
    CHECK_EQ(call(100000, 1, 2, 3), -ENOSYS);
    // Those that need more than the kernel.
    long page = call(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE);
    CHECK(page > 0);
    *(volatile char *)page = 1;
    CHECK_EQ(call(SYS_munmap, page, 4096, 0), 0);
    CHECK(call(SYS_brk, 0, 0, 0) > 0);
    _exit(12);
}

static struct __attribute__((packed)) info {
    unsigned char operation, pad[3];
    unsigned architecture;
    unsigned long ip, sp;
    union {
        struct { unsigned long number, args[6]; } entry;
        struct { long result; unsigned char is_error; } exit;
    };
} info;

static void get_info(pid_t tracee, long size) {
    memset(&info, 0x55, sizeof info);
    CHECK_EQ(ptrace(PTRACE_GET_SYSCALL_INFO, tracee, sizeof info, &info), size);
    CHECK_EQ(info.architecture, AUDIT_ARCH_X86_64);
}

// Goes on to the next stop before a call with this number.
static struct user_regs_struct entry(pid_t tracee, long number, int request) {
    for (;;) {
        go_on(tracee, request, 0);
        CHECK_EQ(stop_of(tracee), STOP);
        struct user_regs_struct registers = registers_of(tracee);
        CHECK_EQ(registers.rax, (unsigned long)-ENOSYS);
        if ((long)registers.orig_rax == number && registers.rip == (unsigned long)call_end) return registers;
        go_on(tracee, PTRACE_SYSCALL, 0);
        CHECK_EQ(stop_of(tracee), STOP);
    }
}

static struct user_regs_struct outcome(pid_t tracee) {
    go_on(tracee, PTRACE_SYSCALL, 0);
    CHECK_EQ(stop_of(tracee), STOP);
    return registers_of(tracee);
}

int main(void) {
    pid_t child = traced_child(calls);
    CHECK_EQ(ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD), 0);

    struct user_regs_struct registers = entry(child, SYS_getuid, PTRACE_SYSCALL);
    CHECK(registers.rdi == 0x11 && registers.rsi == 0x22 && registers.rdx == 0x33);
    CHECK_EQ(registers.rcx, (long)call_end);
    CHECK_EQ(registers.r11, registers.eflags);
    CHECK(registers.cs == 0x33 && registers.ss == 0x2b);
    get_info(child, 80);
    CHECK_EQ(info.operation, PTRACE_SYSCALL_INFO_ENTRY);
    CHECK(info.entry.number == SYS_getuid && info.entry.args[0] == 0x11 && info.entry.args[2] == 0x33);
    CHECK(info.ip == registers.rip && info.sp == registers.rsp);
    siginfo_t signal = signal_of(child);
    CHECK(signal.si_signo == SIGTRAP && signal.si_code == STOP);
    CHECK_EQ(message_of(child), PTRACE_EVENTMSG_SYSCALL_ENTRY);
    registers = outcome(child);
    CHECK_EQ(registers.rax, getuid());
    CHECK_EQ(registers.orig_rax, SYS_getuid);
    get_info(child, 33);
    CHECK(info.operation == PTRACE_SYSCALL_INFO_EXIT && info.exit.result == (long)getuid() && !info.exit.is_error);
    CHECK_EQ(message_of(child), PTRACE_EVENTMSG_SYSCALL_EXIT);
    puts("seen");

    registers = entry(child, SYS_write, PTRACE_SYSCALL);
    int descriptor = registers.rdi;
    CHECK_EQ(outcome(child).rax, 6);
    registers = entry(child, SYS_getpid, PTRACE_SYSCALL);
    registers.orig_rax = SYS_read;
    registers.rdi = descriptor - 1;
    registers.rsi = (long)buffer;
    registers.rdx = 4;
    set_registers(child, &registers);
    CHECK_EQ(registers_of(child).orig_rax, SYS_read);
    CHECK_EQ(outcome(child).rax, 4);
    puts("changed");

    registers = entry(child, SYS_exit_group, PTRACE_SYSCALL);
    registers.orig_rax = -1;
    set_registers(child, &registers);
    CHECK_EQ(outcome(child).rax, (unsigned long)-ENOSYS);
    registers = entry(child, SYS_exit_group, PTRACE_SYSEMU);
    registers.rax = 4711;
    set_registers(child, &registers);
    CHECK_EQ(outcome(child).rax, 4711);
    registers = entry(child, SYS_getppid, PTRACE_SYSCALL);
    registers = outcome(child);
    registers.rax = -EXDEV;
    set_registers(child, &registers);
    registers = entry(child, 100000, PTRACE_SYSCALL);
    CHECK_EQ(outcome(child).rax, (unsigned long)-ENOSYS);
    get_info(child, 33);
    CHECK(info.exit.result == -ENOSYS && info.exit.is_error);
    puts("skipped");

    registers = entry(child, SYS_mmap, PTRACE_SYSCALL);
    registers.r10 = MAP_PRIVATE | MAP_ANONYMOUS;
    registers.r8 = -1;
    registers.r9 = 0;
    set_registers(child, &registers);
    CHECK((long)outcome(child).rax > 0);
    registers = entry(child, SYS_munmap, PTRACE_SYSCALL);
    CHECK_EQ(outcome(child).rax, 0);
    registers = entry(child, SYS_brk, PTRACE_SYSCALL);
    CHECK((long)outcome(child).rax > 0);
    CHECK_EQ(end_of(child), 12);
    puts("made");
}
