// vfork: the child borrows the parent's memory and the parent waits until it execs or exits.
#include "check.h"

static volatile int written;

int main(int argc, char **argv) {
    if (argc > 1) return atoi(argv[1]);
    for (int i = 0; i < 20; i++) {
        pid_t child = vfork();
        if (child == 0) {
            written = i;
            _exit(i);
        }
        CHECK_EQ(written, i);
        CHECK_EQ(exit_code_of(child), i);
    }
    puts("memory shared with a vfork child");
    for (int i = 0; i < 5; i++) {
        pid_t child = vfork();
        if (child == 0) {
            execl(argv[0], argv[0], "33", NULL);
            _exit(1);
        }
        CHECK_EQ(exit_code_of(child), 33);
    }
    puts("vfork and exec");
    volatile int error = 0;
    pid_t child = vfork();
    if (child == 0) {
        execl("/does/not/exist", "x", NULL);
        error = errno;
        _exit(3);
    }
    CHECK_EQ(exit_code_of(child), 3);
    CHECK_EQ(error, ENOENT);
    puts("the failure is visible to the parent");
}
