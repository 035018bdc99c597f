// Orphans: a double fork whose grandchild outlives its parent and still reports; a subreaper
// gets it.
#include "check.h"
#include <sys/prctl.h>

int main(void) {
    CHECK_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    int ends[2], gate[2];
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(pipe(gate), 0);
    pid_t child = fork();
    if (child == 0) {
        pid_t middle = getpid();
        if (fork() == 0) {
            char byte;
            close(gate[1]);
            CHECK_EQ(read(gate[0], &byte, 1), 0); // until our parent is gone
            char report = getppid() != middle ? 'o' : 'n';
            CHECK_EQ(write(ends[1], &report, 1), 1);
            _exit(33);
        }
        _exit(3);
    }
    CHECK_EQ(exit_code_of(child), 3);
    close(gate[1]);
    char report;
    CHECK_EQ(read(ends[0], &report, 1), 1);
    CHECK_EQ(report, 'o');
    int status;
    CHECK(wait(&status) > 0);
    printf("orphan reaped: %d\n", WEXITSTATUS(status));
    CHECK_FAILS(wait(NULL), ECHILD);

    // Dying with the parent, when asked for.
    int watch[2];
    CHECK_EQ(pipe(watch), 0);
    child = fork();
    if (child == 0) {
        int ready[2];
        CHECK_EQ(pipe(ready), 0);
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            CHECK_EQ(write(ready[1], "x", 1), 1);
            for (;;) pause();
        }
        char byte;
        CHECK_EQ(read(ready[0], &byte, 1), 1);
        _exit(4);
    }
    close(watch[1]);
    CHECK_EQ(exit_code_of(child), 4);
    CHECK_EQ(read(watch[0], &report, 1), 0);
    CHECK(wait(&status) > 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    puts("killed with its parent");
}
