// clone with CLONE_VM but not CLONE_THREAD: another process in the same memory, waited for; and
// clone with separate memory on a stack of its own.
#include "check.h"
#include <sched.h>

static volatile int shared;
static char stack[65536] __attribute__((aligned(16)));

static int child(void *argument) {
    shared += (int)(long)argument;
    return shared;
}

static int run(int flags, int value) {
    pid_t pid = clone(child, stack + sizeof stack, flags | SIGCHLD, (void *)(long)value);
    CHECK(pid > 0 && pid != getpid());
    return exit_code_of(pid);
}

int main(void) {
    printf("shared memory: exit %d, ", run(CLONE_VM, 5));
    printf("value %d\n", shared);
    printf("own memory: exit %d, ", run(0, 10));
    printf("value %d\n", shared);
    printf("vfork-like: exit %d, ", run(CLONE_VM | CLONE_VFORK, 20));
    printf("value %d\n", shared);
    printf("files and signals shared: exit %d, ", run(CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_SIGHAND, 40));
    printf("value %d\n", shared);
    CHECK_EQ(shared, 65);
    CHECK_FAILS(syscall(SYS_clone, CLONE_THREAD | SIGCHLD, 0, 0, 0, 0), EINVAL);
    CHECK_FAILS(syscall(SYS_clone, CLONE_SIGHAND | SIGCHLD, 0, 0, 0, 0), EINVAL);
}
