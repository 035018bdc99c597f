// PR_SET_TSC and ARCH_SET_CPUID: reading the clock, or asking for features, faults when the program wants it.
// build: -O1
// needs: rdtscp
#include "check.h"
#include <asm/prctl.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/prctl.h>

static sigjmp_buf back;
static volatile int faults;
static void *where;

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)number;
    CHECK_EQ(info->si_code, SI_KERNEL);
    CHECK_EQ((long)info->si_addr, 0);
    where = (void *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    faults++;
    siglongjmp(back, 1);
}

#define FAULTS(statement)                       \
    ({                                          \
        int before = faults;                    \
        if (!sigsetjmp(back, 1)) statement;     \
        faults - before;                        \
    })

static __attribute__((noinline)) void read_clock(void) { asm volatile("rdtsc" ::: "rax", "rdx"); }
static void read_clock_and_processor(void) { asm volatile("rdtscp" ::: "rax", "rcx", "rdx"); }
static void ask_features(void) { asm volatile("cpuid" :: "a"(0), "c"(0) : "rbx", "rdx"); }

static int mode(void) {
    int mode = 0;
    CHECK_EQ(prctl(PR_GET_TSC, &mode), 0);
    return mode;
}

static void *in_thread(void *unused) {
    (void)unused;
    CHECK_EQ(mode(), PR_TSC_SIGSEGV);
    CHECK_EQ(FAULTS(read_clock()), 1);
    CHECK_EQ(prctl(PR_SET_TSC, PR_TSC_ENABLE), 0);
    CHECK_EQ(FAULTS(read_clock()), 0);
    return NULL;
}

int main(void) {
    on_signal(SIGSEGV, on_fault, SA_NODEFER);
    CHECK_EQ(mode(), PR_TSC_ENABLE);
    CHECK_EQ(FAULTS(read_clock()), 0);
    CHECK_EQ(prctl(PR_SET_TSC, PR_TSC_SIGSEGV), 0);
    CHECK_EQ(mode(), PR_TSC_SIGSEGV);
    CHECK_EQ(FAULTS(read_clock()), 1);
    CHECK((char *)where >= (char *)read_clock && (char *)where < (char *)read_clock + 16);
    CHECK_EQ(FAULTS(read_clock_and_processor()), 1);
    pid_t child = fork();
    if (child == 0) _exit(FAULTS(read_clock()));
    CHECK_EQ(exit_code_of(child), 1);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, in_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(FAULTS(read_clock()), 1);
    CHECK_EQ(prctl(PR_SET_TSC, PR_TSC_ENABLE), 0);
    CHECK_EQ(FAULTS(read_clock()), 0);
    CHECK_FAILS(prctl(PR_SET_TSC, 7), EINVAL);

    CHECK_EQ(syscall(SYS_arch_prctl, ARCH_GET_CPUID, 0), 1);
    int can = syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0) == 0;
    printf("cpuid %s\n", can ? "can be denied" : "cannot be denied");
    if (can) {
        CHECK_EQ(syscall(SYS_arch_prctl, ARCH_GET_CPUID, 0), 0);
        CHECK_EQ(FAULTS(ask_features()), 1);
        CHECK_EQ(syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1), 0);
    }
    CHECK_EQ(FAULTS(ask_features()), 0);
    puts("denied and granted");
}
