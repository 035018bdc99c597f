// Single steps of a tracee: every instruction once, in order, with its effects; repeated ones once a time; branches; system
// calls; signals. Nothing of it shows in the tracee.
// build: -O1
#include "trace.h"
#ifndef PTRACE_SINGLEBLOCK
#define PTRACE_SINGLEBLOCK 33
#endif

extern char steps_start[], steps_branch[], steps_call[], steps_callee[], steps_back[], steps_string[], steps_syscall[],
    steps_flags[], steps_fault[], steps_end[];
void steps(void);
asm(".text\n"
    "steps: push %rbx\n"
    "steps_start: mov $1, %eax\n"
    "lea 5(%rax), %rbx\n"
    "cmp $6, %ebx\n"
    "je steps_branch\n"
    "ud2\n"
    "steps_branch: stc\n"
    "steps_call: call steps_callee\n"
    "steps_back: cld\n"
    "lea steps_source(%rip), %rsi\n"
    "lea steps_target(%rip), %rdi\n"
    "mov $5, %ecx\n"
    "steps_string: rep movsb\n"
    "mov $39, %eax\n"
    "steps_syscall: syscall\n"
    "steps_flags: pushfq\n"
    "pop %rdx\n"
    "xor %ebx, %ebx\n"
    "steps_fault: mov (%rbx), %rbx\n"
    "nop\n"
    "steps_end: pop %rbx\n"
    "ret\n"
    "steps_callee: adc $0, %ebx\n"
    "lea steps_back(%rip), %rcx\n"
    "add $8, %rsp\n"
    "jmp *%rcx\n"
    ".data\n"
    "steps_source: .ascii \"abcde\"\n"
    "steps_target: .zero 8\n"
    ".text\n");
extern char steps_target[];

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] = (long)steps_end;
}

static void run(void) {
    on_signal(SIGSEGV, on_fault, 0);
    raise(SIGUSR1);
    steps();
    CHECK_EQ(memcmp(steps_target, "abcde", 6), 0);
    _exit(21);
}

static struct user_regs_struct step(pid_t tracee) {
    go_on(tracee, PTRACE_SINGLESTEP, 0);
    CHECK_EQ(stop_of(tracee), SIGTRAP);
    return registers_of(tracee);
}

static struct user_regs_struct step_to(pid_t tracee, void *address) {
    struct user_regs_struct registers = step(tracee);
    CHECK_EQ(registers.rip, (long)address);
    return registers;
}

static pid_t child_at_start(void) {
    pid_t child = traced_child(run);
    go_on(child, PTRACE_CONT, 0);
    CHECK_EQ(stop_of(child), SIGUSR1);
    struct user_regs_struct registers;
    int count = 0;
    do {
        registers = step(child);
        CHECK(++count < 100000);
    } while (registers.rip != (unsigned long)steps_start);
    CHECK(count > 3);
    return child;
}

int main(void) {
    pid_t child = child_at_start();
    CHECK_EQ(step(child).rax, 1);
    siginfo_t info = signal_of(child);
    CHECK(info.si_signo == SIGTRAP && info.si_code == TRAP_TRACE);
    CHECK_EQ((long)info.si_addr, (long)registers_of(child).rip);
    CHECK_EQ(step(child).rbx, 6);
    CHECK(step(child).eflags & 0x40);
    step_to(child, steps_branch);
    CHECK(step_to(child, steps_call).eflags & 1);
    struct user_regs_struct registers = step_to(child, steps_callee);
    errno = 0;
    CHECK_EQ(ptrace(PTRACE_PEEKDATA, child, registers.rsp, 0), (long)steps_back);
    CHECK_EQ(errno, 0);
    CHECK_EQ(step(child).rbx, 7);
    CHECK_EQ(step(child).rcx, (long)steps_back);
    step(child);
    step_to(child, steps_back);
    step(child), step(child), step(child);
    step_to(child, steps_string);
    // Once a time.
    for (int left = 4; left > 0; left--) CHECK_EQ(step_to(child, steps_string).rcx, left);
    registers = step(child);
    CHECK_EQ(registers.rcx, 0);
    CHECK_EQ((char)ptrace(PTRACE_PEEKDATA, child, steps_target + 4, 0), 'e');
    step_to(child, steps_syscall);
    registers = step_to(child, steps_flags);
    CHECK_EQ(registers.rax, child);
    step(child);
    step(child);
    CHECK_EQ(step_to(child, steps_fault).rbx, 0);
    go_on(child, PTRACE_SINGLESTEP, 0);
    CHECK_EQ(stop_of(child), SIGSEGV);
    CHECK_EQ(registers_of(child).rip, (long)steps_fault);
    CHECK_EQ((long)signal_of(child).si_addr, 0);
    // Into the handler.
    go_on(child, PTRACE_SINGLESTEP, SIGSEGV);
    CHECK_EQ(stop_of(child), SIGTRAP);
    registers = registers_of(child);
    CHECK_EQ(registers.rip, (long)on_fault);
    CHECK_EQ(registers.rdi, SIGSEGV);
    CHECK_EQ(end_of(child), 21);
    puts("steps");

    child = child_at_start();
    // From branch to branch; two kernels in a row have had trouble with calls.
    go_on(child, PTRACE_SINGLEBLOCK, 0);
    CHECK_EQ(stop_of(child), SIGTRAP);
    long at = registers_of(child).rip;
    CHECK(at == (long)steps_branch || at == (long)steps_start + 5);
    go_on(child, PTRACE_CONT, 0);
    CHECK_EQ(stop_of(child), SIGSEGV);
    go_on(child, PTRACE_CONT, SIGSEGV);
    CHECK_EQ(WEXITSTATUS(status_of(child)), 21);
    puts("blocks");
}
