// Filters on calls that need more than the kernel: memory, programs, threads, signals. Each is refused with an errno and by
// SIGSYS; arguments count; what is refused stays refused in threads, children and executed programs; everything else goes on.
// build: -O1 -pthread
#include "check.h"
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

#define NUMBER BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define ARGUMENT(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[n]))
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip)
#define ANSWER(action) BPF_STMT(BPF_RET | BPF_K, action)

static long install(struct sock_filter *code, int length, int flags) {
    struct sock_fprog program = {length, code};
    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}
#define INSTALL(flags, ...)                                              \
    ({                                                                   \
        struct sock_filter code[] = {__VA_ARGS__};                       \
        install(code, sizeof code / sizeof *code, flags);                \
    })

static void refuse(int number, unsigned action) {
    CHECK_EQ(INSTALL(0, NUMBER, UNLESS(number, 1), ANSWER(action), ANSWER(SECCOMP_RET_ALLOW)), 0);
}

static volatile int trapped, wanted, data;
static void on_trap(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    CHECK_EQ(number, SIGSYS);
    CHECK_EQ(info->si_code, 1);
    CHECK_EQ(info->si_syscall, wanted);
    CHECK_EQ(info->si_errno, data);
    CHECK_EQ(info->si_arch, AUDIT_ARCH_X86_64);
    CHECK_EQ((long)info->si_call_addr, registers[REG_RIP]);
    CHECK_EQ(registers[REG_RAX], wanted);
    CHECK_EQ(registers[REG_RDI], 0x1234);
    registers[REG_RAX] = -EXDEV;
    trapped++;
}

// Runs in a child and tells how it ended.
static int ending_of(void (*run)(int), int argument) {
    pid_t child = fork();
    if (child == 0) {
        run(argument);
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static long call(int number) { return syscall(number, 0x1234, 0, 0, 0, 0, 0); }

static void with_errno(int number) {
    refuse(number, SECCOMP_RET_ERRNO | EXDEV);
    CHECK_FAILS(call(number), EXDEV);
    syscall(SYS_exit, 0);
}

static void with_trap(int number) {
    on_signal(SIGSYS, on_trap, 0);
    wanted = number;
    data = 77;
    refuse(number, SECCOMP_RET_TRAP | 77);
    CHECK_FAILS(call(number), EXDEV);
    CHECK_EQ(trapped, 1);
    syscall(SYS_exit, 0);
}

static void with_kill(int number) {
    refuse(number, SECCOMP_RET_KILL_PROCESS);
    call(number);
}

static void with_trace(int number) {
    refuse(number, SECCOMP_RET_TRACE | 5);
    CHECK_FAILS(call(number), ENOSYS);
    syscall(SYS_exit, 0);
}

static void blocked_trap(int number) {
    on_signal(SIGSYS, on_trap, 0);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    refuse(number, SECCOMP_RET_TRAP);
    call(number);
}

static int fresh_code(int value) {
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    page[0] = (char)0xb8;
    memcpy(page + 1, &value, 4);
    page[5] = (char)0xc3;
    return ((int (*)(void))page)();
}

// Nothing is left of what only a translator would call, and code goes on.
static void by_argument(int unused) {
    (void)unused;
    CHECK_EQ(INSTALL(0, NUMBER, UNLESS(SYS_mmap, 3), ARGUMENT(1), UNLESS(0x5000, 1),
                     ANSWER(SECCOMP_RET_ERRNO | ENOMEM), ANSWER(SECCOMP_RET_ALLOW)), 0);
    CHECK(mmap(NULL, 0x5000, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
    CHECK_EQ(errno, ENOMEM);
    CHECK(mmap(NULL, 0x6000, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    CHECK_EQ(fresh_code(99), 99);
    static const int all[] = {SYS_futex, SYS_rt_sigprocmask, SYS_openat, SYS_readlink, SYS_gettid, SYS_getpid,
                              SYS_tgkill, SYS_mprotect, SYS_munmap, SYS_close, SYS_mmap, SYS_sched_yield};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) refuse(all[i], SECCOMP_RET_KILL_PROCESS);
    char text[32];
    for (int i = 0; i < 1000; i++) snprintf(text, sizeof text, "%a %d", i * 0.7, i);
    for (int i = 0; i < 1000; i++) qsort(text, 31, 1, (int (*)(const void *, const void *))strcmp);
    _exit(5);
}

static int is_refused(void) { return syscall(SYS_getsid, 0) == -1 && errno == EXDEV; }
static int is_refused_here(void) { return syscall(SYS_brk, 0) == -1 && errno == ENOTTY; }

static void *thread_is_refused(void *unused) {
    (void)unused;
    return (void *)(long)(is_refused() + 2 * is_refused_here());
}

static void *kill_thread(void *unused) {
    (void)unused;
    refuse(SYS_sigaltstack, SECCOMP_RET_KILL_THREAD);
    sigaltstack(NULL, NULL);
    return NULL;
}

static volatile int ready, go;
static void *earlier_thread(void *unused) {
    (void)unused;
    ready = 1;
    while (!go) sched_yield();
    return thread_is_refused(NULL);
}

static void inherited(int unused) {
    (void)unused;
    pthread_t thread, early;
    void *result;
    CHECK_EQ(pthread_create(&early, NULL, earlier_thread, NULL), 0);
    while (!ready) sched_yield();
    refuse(SYS_getsid, SECCOMP_RET_ERRNO | EXDEV);
    CHECK_EQ(INSTALL(SECCOMP_FILTER_FLAG_TSYNC, NUMBER, UNLESS(SYS_brk, 1), ANSWER(SECCOMP_RET_ERRNO | ENOTTY),
                     ANSWER(SECCOMP_RET_ALLOW)), 0);
    go = 1;
    CHECK_EQ(pthread_join(early, &result), 0);
    CHECK_EQ((long)result, 3);
    CHECK_EQ(pthread_create(&thread, NULL, thread_is_refused, NULL), 0);
    CHECK_EQ(pthread_join(thread, &result), 0);
    CHECK_EQ((long)result, 3);
    execl("/proc/self/exe", "again", "again", NULL);
    _exit(1);
}

// The address behind the instruction, which no translator should change.
static void by_address(int unused) {
    (void)unused;
    extern char refused_here[];
    unsigned low = (unsigned)(unsigned long)refused_here, high = (unsigned long)refused_here >> 32;
    CHECK_EQ(INSTALL(0, BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer)),
                     UNLESS(low, 3), BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4),
                     UNLESS(high, 1), ANSWER(SECCOMP_RET_ERRNO | EXDEV), ANSWER(SECCOMP_RET_ALLOW)), 0);
    long result;
    CHECK(getpid() > 0);
    asm volatile("syscall; refused_here:" : "=a"(result) : "a"(SYS_getpid) : "rcx", "r11", "memory");
    CHECK_EQ(result, -EXDEV);
    CHECK(getpid() > 0);
}

static void strict(int end) {
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT), 0);
    char text[8];
    CHECK_EQ(write(ends[1], "strict", 6), 6);
    CHECK_EQ(read(ends[0], text, 6), 6);
    CHECK_EQ(memcmp(text, "strict", 6), 0);
    for (volatile int i = 0; i < 100000; i++) {}
    if (end) getpid();
    syscall(SYS_exit, 9);
}

// Somebody else answers: a listener.
static void with_listener(int unused) {
    (void)unused;
    long listener = INSTALL(SECCOMP_FILTER_FLAG_NEW_LISTENER, NUMBER, UNLESS(SYS_mkdir, 1),
                            ANSWER(SECCOMP_RET_USER_NOTIF), ANSWER(SECCOMP_RET_ALLOW));
    CHECK(listener >= 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK_EQ(mkdir("made up", 0), 0);
        CHECK_FAILS(mkdir("made up", 0), EBADMSG);
        _exit(0);
    }
    for (int i = 0; i < 2; i++) {
        struct seccomp_notif asked;
        struct seccomp_notif_resp answer;
        memset(&asked, 0, sizeof asked);
        memset(&answer, 0, sizeof answer);
        CHECK_EQ(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked), 0);
        CHECK_EQ(asked.data.nr, SYS_mkdir);
        answer.id = asked.id;
        answer.error = i ? -EBADMSG : 0;
        CHECK_EQ(ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer), 0);
    }
    CHECK_EQ(exit_code_of(child), 0);
}

int main(int count, char **arguments) {
    (void)arguments;
    if (count > 1) return is_refused() && is_refused_here() ? 42 : 1;
    static const int calls[] = {
        SYS_execve, SYS_execveat, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_brk, SYS_shmat, SYS_shmdt,
        SYS_clone, SYS_clone3, SYS_fork, SYS_vfork, SYS_exit_group, SYS_arch_prctl, SYS_prctl, SYS_rseq, SYS_modify_ldt,
        SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_sigaltstack, SYS_rt_sigpending, SYS_rt_sigsuspend, SYS_open, SYS_openat,
        SYS_readlink, SYS_stat, SYS_write, SYS_getrlimit, SYS_prlimit64, SYS_getppid, SYS_kill, SYS_getpid, SYS_io_setup,
        SYS_io_uring_setup, SYS_ptrace, SYS_wait4,
    };
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        int number = calls[i];
        CHECK_EQ(ending_of(with_errno, number), 0);
        CHECK_EQ(ending_of(with_trap, number), 0);
        CHECK_EQ(ending_of(with_kill, number), 1000 + SIGSYS);
        CHECK_EQ(ending_of(with_trace, number), 0);
        // This one would not get as far.
        if (number != SYS_rt_sigprocmask) CHECK_EQ(ending_of(blocked_trap, number), 1000 + SIGSYS);
    }
    printf("%zu calls\n", sizeof calls / sizeof *calls);
    printf("by argument: %d\n", ending_of(by_argument, 0));
    printf("inherited: %d\n", ending_of(inherited, 0));
    printf("by address: %d\n", ending_of(by_address, 0));
    printf("strict: %d, %d\n", ending_of(strict, 0), ending_of(strict, 1));
    printf("listener: %d\n", ending_of(with_listener, 0));
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, kill_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    puts("alive");
}
