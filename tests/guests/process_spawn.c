// posix_spawn: success, failure reported as its result, file actions, attributes and PATH search.
#include "check.h"
#include <fcntl.h>
#include <spawn.h>

extern char **environ;

int main(int argc, char **argv) {
    if (argc > 1) {
        char line[100];
        if (fgets(line, sizeof line, stdin)) printf("%s got %s", argv[0], line);
        sigset_t mask;
        sigprocmask(SIG_BLOCK, NULL, &mask);
        struct sigaction action;
        sigaction(SIGUSR1, NULL, &action);
        printf("mask %d, usr1 default %d, group %d\n", sigismember(&mask, SIGUSR2), action.sa_handler == SIG_DFL,
               getpgrp() == getpid());
        return 5;
    }
    int file = open("input", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK_EQ(write(file, "a line\n", 7), 7);
    close(file);

    // A directory that may not be searched would change the error of a failed lookup.
    setenv("PATH", "/usr/bin:/bin", 1);
    signal(SIGUSR1, SIG_IGN);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "input", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    posix_spawnattr_setsigmask(&attributes, &set);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    posix_spawnattr_setsigdefault(&attributes, &set);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    char *arguments[] = {"spawned", "x", NULL};
    pid_t child;
    CHECK_EQ(posix_spawn(&child, argv[0], &actions, &attributes, arguments, environ), 0);
    printf("exited with %d\n", exit_code_of(child));

    CHECK_EQ(posix_spawn(&child, "/does/not/exist", NULL, NULL, arguments, environ), ENOENT);
    CHECK_EQ(posix_spawn(&child, "input", NULL, NULL, arguments, environ), EACCES);
    posix_spawn_file_actions_t bad;
    posix_spawn_file_actions_init(&bad);
    posix_spawn_file_actions_addopen(&bad, 0, "/does/not/exist", O_RDONLY, 0);
    CHECK_EQ(posix_spawn(&child, argv[0], &bad, NULL, arguments, environ), ENOENT);
    CHECK_FAILS(waitpid(-1, NULL, 0), ECHILD);
    char *true_arguments[] = {"true", NULL};
    CHECK_EQ(posix_spawnp(&child, "true", NULL, NULL, true_arguments, environ), 0);
    CHECK_EQ(exit_code_of(child), 0);
    CHECK_EQ(posix_spawnp(&child, "no-such-program-anywhere", NULL, NULL, true_arguments, environ), ENOENT);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(posix_spawnp(&child, "false", NULL, NULL, true_arguments, environ), 0);
        CHECK_EQ(exit_code_of(child), 1);
    }
    puts("failures reported, nothing left behind");
}
