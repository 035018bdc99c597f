// Scripts: #! with and without an argument, nested interpreters, a relative interpreter, and the
// arguments each of them gets.
#include "check.h"
#include <fcntl.h>
#include <sys/stat.h>

static void make(const char *name, const char *text) {
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    CHECK(file >= 0);
    CHECK_EQ(write(file, text, strlen(text)), strlen(text));
    close(file);
}

static void run(const char *path) {
    pid_t child = fork();
    if (child == 0) {
        char *arguments[] = {"not-seen", "first", "second one", NULL};
        execv(path, arguments);
        printf("%s: %s\n", path, strerror(errno));
        _exit(70);
    }
    printf("%s: exit %d\n", path, exit_code_of(child));
}

int main(int argc, char **argv) {
    if (argc > 1) {
        printf("  arguments:");
        for (int i = 1; i < argc; i++) printf(" [%s]", argv[i]);
        puts("");
        return argc;
    }
    char text[5000];
    sprintf(text, "#!%s\n", argv[0]);
    make("plain", text);
    run("./plain");
    sprintf(text, "#! %s  one argument with spaces  \n", argv[0]);
    make("argument", text);
    run("./argument");
    make("nested", "#!./plain inner\n");
    run("./nested");
    make("deeper", "#!./nested\n");
    run("./deeper");
    make("shell", "#!/bin/sh -e\necho \"shell: $0 $1 $2\"\nexit 6\n");
    run("./shell");
    make("no-newline", "#!/bin/sh");
    run("./no-newline");
    make("bad", "#!/does/not/exist\n");
    run("./bad");
    make("loop", "#!./loop\n");
    run("./loop");
    make("empty", "#!\n");
    run("./empty");
    // Without #!: execv refuses, the shell's way (execvp) runs it with sh.
    make("headless", "echo headless $1\nexit 4\n");
    run("./headless");
    pid_t child = fork();
    if (child == 0) {
        execlp("./headless", "x", "with sh", NULL);
        _exit(71);
    }
    printf("execvp: exit %d\n", exit_code_of(child));
}
