// PR_SET_SYSCALL_USER_DISPATCH: calls from outside a range become SIGSYS while a byte of the program says so.
// build: -O1 -pthread
#include "check.h"
#include <linux/audit.h>
#include <pthread.h>
#include <sys/prctl.h>
#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

enum { ALLOW, BLOCK };
static volatile char selector = ALLOW;
static volatile int dispatched;
static volatile long number_seen;

extern char inside_start[], inside_end[];
long call_inside(long number);
asm(".text\n"
    "inside_start:\n"
    "call_inside: mov %rdi, %rax\n syscall\n ret\n"
    "restorer: mov $15, %eax\n syscall\n nop\n"
    "inside_end:\n");
extern void restorer(void);

static void handler(int number, siginfo_t *info, void *context) {
    selector = ALLOW;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    CHECK_EQ(number, SIGSYS);
    CHECK_EQ(info->si_code, 2);
    CHECK_EQ(info->si_errno, 0);
    CHECK_EQ(info->si_arch, AUDIT_ARCH_X86_64);
    CHECK_EQ((long)info->si_call_addr, registers[REG_RIP]);
    CHECK_EQ(info->si_syscall, registers[REG_RAX]);
    number_seen = info->si_syscall;
    registers[REG_RAX] = 4711 + registers[REG_RDI];
    dispatched++;
    selector = BLOCK;
}

// A handler whose way back is inside the range.
static void install(void) {
    struct { void *handler; long flags; void *restorer; long mask; } action = {
        handler, SA_SIGINFO | 0x04000000, restorer, 0};
    CHECK_EQ(syscall(SYS_rt_sigaction, SIGSYS, &action, NULL, 8), 0);
}

static long set(long mode, void *start, long length, volatile char *byte) {
    return syscall(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, mode, start, length, byte);
}

static void *in_thread(void *unused) {
    (void)unused;
    CHECK(getppid() > 0);
    return NULL;
}

static int ending_of(void (*run)(void)) {
    pid_t child = fork();
    if (child == 0) {
        run();
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void nonsense(void) {
    CHECK_EQ(set(1, inside_start, inside_end - inside_start, &selector), 0);
    selector = 7;
    getpid();
}

static void unreadable(void) {
    char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK_EQ(set(1, inside_start, inside_end - inside_start, page), 0);
    CHECK_EQ(munmap(page, 4096), 0);
    getpid();
}

int main(void) {
    long length = inside_end - inside_start;
    if (set(1, inside_start, length, &selector) != 0) {
        puts("no such thing here");
        return 0;
    }
    install();
    CHECK(getpid() > 0);
    selector = BLOCK;
    long inside = call_inside(SYS_getpid);
    long answer = syscall(SYS_getsid, 5);
    long mapped = syscall(SYS_mmap, 1, 2, 3, 4, 5, 6);
    long number_of_mmap = number_seen;
    long unknown = syscall(100000, 9);
    selector = ALLOW;
    CHECK_EQ(inside, getpid());
    CHECK_EQ(answer, 4716);
    CHECK_EQ(mapped, 4712);
    CHECK_EQ(number_of_mmap, SYS_mmap);
    CHECK_EQ(unknown, 4720);
    CHECK_EQ(number_seen, 100000);
    CHECK_EQ(dispatched, 3);

    // Children and threads start without.
    selector = BLOCK;
    long child = call_inside(SYS_fork);
    if (child == 0) {
        CHECK(getppid() > 0);
        _exit(3);
    }
    selector = ALLOW;
    CHECK_EQ(exit_code_of(child), 3);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, in_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);

    CHECK_EQ(set(0, 0, 0, 0), 0);
    selector = BLOCK;
    CHECK(getpid() > 0);
    selector = ALLOW;
    CHECK_FAILS(set(0, inside_start, 0, 0), EINVAL);
    CHECK_FAILS(set(1, (void *)-1, 2, &selector), EINVAL);
    CHECK_FAILS(set(99, 0, 0, &selector), EINVAL);
    CHECK_FAILS(set(1, 0, 0, (void *)-4096), EFAULT);
    printf("nonsense: %d, unreadable: %d\n", ending_of(nonsense), ending_of(unreadable));
    printf("%d dispatched\n", dispatched);
}
