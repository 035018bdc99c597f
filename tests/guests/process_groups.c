// Sessions and process groups: setsid, setpgid, getsid, and signals for a whole group.
#include "check.h"

int main(void) {
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    pid_t leader = fork();
    if (leader == 0) {
        CHECK_EQ(setsid(), getpid());
        CHECK_EQ(getsid(0), getpid());
        CHECK_EQ(getpgrp(), getpid());
        CHECK_FAILS(setsid(), EPERM);
        for (int i = 0; i < 3; i++) {
            if (fork() == 0) {
                CHECK_EQ(getpgrp(), getppid());
                CHECK_EQ(write(ends[1], "x", 1), 1);
                for (;;) pause();
            }
        }
        char bytes[3];
        for (int got = 0; got < 3;) got += (int)read(ends[0], bytes, 3 - got);
        signal(SIGTERM, SIG_IGN);
        CHECK_EQ(kill(0, SIGTERM), 0);
        int killed = 0, status;
        while (wait(&status) > 0) killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
        _exit(killed);
    }
    printf("group of %d killed\n", exit_code_of(leader));
    pid_t child = fork();
    if (child == 0)
        for (;;) pause();
    CHECK_EQ(setpgid(child, child), 0);
    CHECK_EQ(getpgid(child), child);
    CHECK_EQ(killpg(child, SIGKILL), 0);
    int status;
    CHECK_EQ(waitpid(-child, &status, 0), child);
    printf("killed by %d\n", WTERMSIG(status));
    CHECK_FAILS(setpgid(0, 0x7ffffff0), EPERM);
    CHECK_FAILS(killpg(0x7ffffff0, SIGTERM), ESRCH);
}
