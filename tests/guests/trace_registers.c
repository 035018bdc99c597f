// All registers of a tracee: integer, x87 and vector state, segment bases, debug registers that watch data and code.
// build: -O1
#include "trace.h"
#include <asm/prctl.h>
#include <stdalign.h>

static volatile long watched[4], unwatched;
static alignas(64) char image[4096];

extern char before_stop[], watch_end[];

static __attribute__((noinline)) void callee(void) { asm volatile(""); }
static __attribute__((noinline)) void store(long value) {
    watched[0] = value;
    asm volatile("watch_end:");
}
static __attribute__((noinline)) long load(void) { return watched[1]; }

static void tracee(void) {
    double out[2];
    long low, high;
    asm volatile("mov $0x1111, %%rax\n mov $0x2222, %%rbx\n mov $0x3333, %%r12\n"
                 "movq %%rax, %%xmm3\n movq %%rbx, %%xmm15\n"
                 "fldl (%4)\n"
                 "mov %%rax, %%r8\n mov %%rbx, %%r9\n"
                 "int3\n"
                 "before_stop:\n"
                 "movq %%xmm3, %0\n movq %%xmm15, %1\n mov %%r12, %2\n"
                 "fstpl (%3)\n"
                 : "=&r"(low), "=&r"(high), "=&r"(unwatched)
                 : "r"(out), "r"((double[]){1.5})
                 : "rax", "rbx", "r8", "r9", "r12", "xmm3", "xmm15", "st", "memory");
    CHECK_EQ(low, 0x7777);
    CHECK_EQ(high, 0x2222);
    CHECK_EQ(unwatched, 0x4444);
    CHECK(out[0] == 2.5);
    unsigned long gs;
    CHECK_EQ(syscall(SYS_arch_prctl, ARCH_GET_GS, &gs), 0);
    CHECK_EQ(gs, 0x123456000);
    raise(SIGUSR1);
    for (int i = 0; i < 3; i++) {
        unwatched = i;
        store(i + 10);
        load();
        callee();
    }
    _exit(44);
}

static void set_debug(pid_t tracee, int number, unsigned long value) {
    CHECK_EQ(ptrace(PTRACE_POKEUSER, tracee, offsetof(struct user, u_debugreg[number]), value), 0);
}

static unsigned long debug(pid_t tracee, int number) {
    errno = 0;
    unsigned long value = ptrace(PTRACE_PEEKUSER, tracee, offsetof(struct user, u_debugreg[number]), 0);
    CHECK_EQ(errno, 0);
    return value;
}

int main(void) {
    pid_t child = traced_child(tracee);
    go_on(child, PTRACE_CONT, 0);
    CHECK_EQ(stop_of(child), SIGTRAP);
    struct user_regs_struct registers = registers_of(child), again;
    CHECK(registers.rax == 0x1111 && registers.rbx == 0x2222 && registers.r12 == 0x3333 && registers.r8 == 0x1111);
    CHECK_EQ(registers.rip, (long)before_stop);
    CHECK(registers.fs_base != 0 && registers.gs_base == 0 && registers.ds == 0 && registers.fs == 0);
    struct iovec vector = {&again, sizeof again};
    CHECK_EQ(ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &vector), 0);
    CHECK_EQ(vector.iov_len, sizeof again);
    CHECK_EQ(memcmp(&registers, &again, sizeof again), 0);
    vector.iov_len = 24;
    CHECK_EQ(ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &vector), 0);
    CHECK_EQ(vector.iov_len, 24);
    CHECK_EQ(ptrace(PTRACE_PEEKUSER, child, offsetof(struct user, regs.rbx), 0), 0x2222);
    CHECK_EQ(ptrace(PTRACE_PEEKUSER, child, offsetof(struct user, regs.rip), 0), (long)before_stop);
    CHECK_EQ(ptrace(PTRACE_POKEUSER, child, offsetof(struct user, regs.r12), 0x4444), 0);
    CHECK_EQ(registers_of(child).r12, 0x4444);
    CHECK_EQ(ptrace(PTRACE_POKEUSER, child, offsetof(struct user, regs.gs_base), 0x123456000), 0);
    unsigned long base = 0;
    CHECK_EQ(ptrace(PTRACE_ARCH_PRCTL, child, &base, ARCH_GET_GS), 0);
    CHECK_EQ(base, 0x123456000);
    CHECK_EQ(ptrace(PTRACE_ARCH_PRCTL, child, &base, ARCH_GET_FS), 0);
    CHECK_EQ(base, registers.fs_base);

    struct user_fpregs_struct floats;
    CHECK_EQ(ptrace(PTRACE_GETFPREGS, child, 0, &floats), 0);
    CHECK_EQ(floats.xmm_space[12], 0x1111);
    CHECK_EQ(floats.xmm_space[60], 0x2222);
    long double top;
    memcpy(&top, floats.st_space, 10);
    CHECK(top == 1.5L);
    top = 2.5L;
    memcpy(floats.st_space, &top, 10);
    CHECK_EQ(ptrace(PTRACE_SETFPREGS, child, 0, &floats), 0);
    vector = (struct iovec){image, sizeof image};
    CHECK_EQ(ptrace(PTRACE_GETREGSET, child, NT_X86_XSTATE, &vector), 0);
    CHECK(vector.iov_len >= 576 && vector.iov_len < sizeof image);
    long *word = (long *)(image + 160 + 3 * 16);
    CHECK_EQ(*word, 0x1111);
    *word = 0x7777;
    CHECK_EQ(ptrace(PTRACE_SETREGSET, child, NT_X86_XSTATE, &vector), 0);
    go_on(child, PTRACE_CONT, 0);
    CHECK_EQ(stop_of(child), SIGUSR1);
    puts("registers");

    // Stores of eight bytes, loads of eight bytes, and a function.
    set_debug(child, 0, (long)&watched[0]);
    set_debug(child, 1, (long)&watched[1]);
    set_debug(child, 2, (long)callee);
    set_debug(child, 7, 0x1 | 0x9 << 16 | 0x4 | 0xbUL << 20 | 0x10);
    for (int i = 0; i < 3; i++) {
        go_on(child, PTRACE_CONT, 0);
        CHECK_EQ(stop_of(child), SIGTRAP);
        CHECK_EQ(debug(child, 6) & 0xf, 1);
        CHECK_EQ(signal_of(child).si_code, TRAP_HWBKPT);
        CHECK_EQ(registers_of(child).rip, (long)watch_end);
        CHECK_EQ(ptrace(PTRACE_PEEKDATA, child, &watched[0], 0), i + 10);
        set_debug(child, 6, 0);
        go_on(child, PTRACE_CONT, 0);
        CHECK_EQ(stop_of(child), SIGTRAP);
        CHECK_EQ(debug(child, 6) & 0xf, 2);
        set_debug(child, 6, 0);
        go_on(child, PTRACE_CONT, 0);
        CHECK_EQ(stop_of(child), SIGTRAP);
        CHECK_EQ(debug(child, 6) & 0xf, 4);
        CHECK_EQ(registers_of(child).rip, (long)callee);
        set_debug(child, 6, 0);
    }
    CHECK_EQ(debug(child, 2), (long)callee);
    set_debug(child, 7, 0);
    CHECK_EQ(end_of(child), 44);
    puts("watched");
}
