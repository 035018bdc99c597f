// A thread made with the clone system call itself: no C library, its own FS base, the id written
// and cleared by the kernel, and a futex wake at its end.
#include "check.h"
#include <linux/futex.h>
#include <sched.h>

// rdi flags, rsi stack, rdx parent tid, r10 child tid, r8 tls; the child calls `child_code`.
long raw_clone(unsigned long flags, void *stack, int *parent, int *child, void *tls);
asm(".pushsection .text\n"
    "raw_clone: mov %rcx, %r10\n mov $56, %eax\n syscall\n"
    " test %rax, %rax\n jz 1f\n ret\n"
    "1: xor %ebp, %ebp\n mov %fs:0, %rdi\n call child_code\n"
    " xor %edi, %edi\n mov $60, %eax\n syscall\n hlt\n"
    ".popsection");

static volatile long got_tls, got_value;
static long tls_block[64] __attribute__((aligned(64)));

__attribute__((used)) void child_code(long tls) {
    got_tls = tls;
    long value;
    asm volatile("mov %%fs:8, %0" : "=r"(value));
    got_value = value;
}

int main(void) {
    static char stack[65536] __attribute__((aligned(16)));
    unsigned long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                          CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
    for (int i = 0; i < 50; i++) {
        // A separate word for the parent: the child may clear its own before we look.
        volatile int parent_tid = 0, child_tid = -1;
        tls_block[0] = (long)tls_block;
        tls_block[1] = 1000 + i;
        long tid = raw_clone(flags, stack + sizeof stack, (int *)&parent_tid, (int *)&child_tid, tls_block);
        CHECK(tid > 0);
        CHECK_EQ(parent_tid, tid);
        int seen;
        while ((seen = child_tid) != 0) syscall(SYS_futex, &child_tid, FUTEX_WAIT, seen, NULL);
        CHECK_EQ(got_tls, (long)tls_block);
        CHECK_EQ(got_value, 1000 + i);
    }
    puts("50 raw threads");
}
