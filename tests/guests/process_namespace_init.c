// The first process of a PID namespace: no signal that it does not handle ends it, but its own faults do.
// build: -O1
#include "check.h"
#include <sched.h>

static void segv(void) { *(volatile int *)8 = 1; }
static void trap(void) { asm volatile("int3"); }
static void ill(void) { asm volatile("ud2"); }
static void fpe(void) { asm volatile("xor %%ecx, %%ecx; div %%ecx" ::: "eax", "ecx", "edx", "cc"); }
static void bus(void) {
    FILE *file = tmpfile();
    CHECK(file);
    volatile char *beyond = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);
    CHECK(beyond != MAP_FAILED);
    (void)*beyond;
}
static void blocked(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    segv();
}
static void ignored(void) {
    signal(SIGSEGV, SIG_IGN);
    segv();
}
static void handled(int number) { signal(number, SIG_DFL); }
static void after_handler(void) {
    signal(SIGILL, handled);
    ill();
}

// What is sent is lost, whether it is to end the process or to show a fault.
static void survives(void) {
    int sent[] = {SIGTERM, SIGSEGV, SIGTRAP, SIGBUS, SIGILL, SIGFPE, SIGUSR1, SIGKILL, SIGABRT};
    for (unsigned i = 0; i < sizeof sent / sizeof *sent; i++) {
        CHECK_EQ(kill(getpid(), sent[i]), 0);
        CHECK_EQ(raise(sent[i]), 0);
    }
    _exit(7);
}

static const struct { const char *name; void (*run)(void); } tests[] = {
    {"segv", segv}, {"trap", trap}, {"ill", ill}, {"fpe", fpe}, {"bus", bus}, {"blocked", blocked},
    {"ignored", ignored}, {"after handler", after_handler}, {"abort", abort}, {"survives", survives},
};

int main(void) {
    for (unsigned i = 0; i < sizeof tests / sizeof *tests; i++) {
        pid_t outer = fork();
        if (outer == 0) {
            if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) _exit(77);
            pid_t init = fork();
            if (init == 0) {
                CHECK_EQ(getpid(), 1);
                tests[i].run();
                _exit(1);
            }
            int status;
            if (init < 0) _exit(77);
            CHECK_EQ(waitpid(init, &status, 0), init);
            _exit(WIFSIGNALED(status) ? 100 + WTERMSIG(status) : WEXITSTATUS(status));
        }
        int code = exit_code_of(outer);
        if (code == 77) {
            puts("no PID namespaces here");
            return 0;
        }
        printf("%s: %d\n", tests[i].name, code);
    }
}
