// The exec family: argv[0] that is not the path, empty environment, PATH search, relative paths
// after chdir, a descriptor, execveat, and a long chain of execs in one process.
#include "check.h"
#include <fcntl.h>

extern char **environ;

static void run(const char *what, char **argv, int how) {
    pid_t child = fork();
    if (child == 0) {
        char *arguments[] = {"chosen-name", "show", "two words", "", NULL};
        char *environment[] = {"ONLY=this", NULL};
        char directory[4096];
        strcpy(directory, argv[0]);
        char *base = strrchr(directory, '/') + 1;
        base[-1] = 0;
        int file;
        switch (how) {
        case 0: execv(argv[0], arguments); break;
        case 1: execve(argv[0], arguments, environment); break;
        case 2: execve(argv[0], arguments, NULL); break;
        case 3: setenv("PATH", directory, 1); execvp(base, arguments); break;
        case 4: CHECK_EQ(chdir(directory), 0); execv(base, arguments); break;
        case 5: file = open(argv[0], O_RDONLY | O_CLOEXEC); fexecve(file, arguments, environment); break;
        case 6:
            file = open(directory, O_RDONLY | O_DIRECTORY);
            syscall(SYS_execveat, file, base, arguments, environment, 0);
            break;
        case 7:
            file = open(argv[0], O_PATH);
            syscall(SYS_execveat, file, "", arguments, environment, AT_EMPTY_PATH);
            break;
        case 8: CHECK_EQ(symlink(argv[0], "link"), 0); execv("./link", arguments); break;
        }
        check_failed("exec %d failed: %s\n", how, strerror(errno));
    }
    int code = exit_code_of(child);
    printf("%s: exit %d\n", what, code);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "show") == 0) {
        printf("  %d arguments:", argc);
        for (int i = 0; i < argc; i++) printf(" [%s]", argv[i]);
        int count = 0;
        while (environ && environ[count]) count++;
        printf(" environment: %s\n", count == 0 ? "none" : count == 1 ? environ[0] : "many");
        return 40 + argc;
    }
    if (argc > 1) {
        // The chain: the process stays the same, only the count changes.
        int left = atoi(argv[1]);
        CHECK_EQ(atoi(argv[2]), getpid());
        if (left == 0) return 21;
        char next[20];
        sprintf(next, "%d", left - 1);
        execl("/proc/self/exe", argv[0], next, argv[2], NULL);
        return 1;
    }
    run("execv", argv, 0);
    run("execve", argv, 1);
    run("execve without environment", argv, 2);
    run("execvp", argv, 3);
    run("relative", argv, 4);
    run("fexecve", argv, 5);
    run("execveat", argv, 6);
    run("execveat on a path descriptor", argv, 7);
    run("symbolic link", argv, 8);
    pid_t child = fork();
    if (child == 0) {
        char pid[20];
        sprintf(pid, "%d", getpid());
        execl(argv[0], argv[0], "30", pid, NULL);
    }
    printf("chain of 30: exit %d\n", exit_code_of(child));
}
