// Executing a copy of the program in anonymous memory: fexecve of a memfd.
#include "check.h"
#include <fcntl.h>

extern char **environ;

int main(int argc, char **argv) {
    if (argc > 1) {
        char target[4096];
        ssize_t length = readlink("/proc/self/exe", target, sizeof target - 1);
        CHECK(length > 0);
        target[length] = 0;
        printf("%s runs from %s\n", argv[0], target);
        return 17;
    }
    int source = open(argv[0], O_RDONLY);
    int copy = memfd_create("copied program", MFD_CLOEXEC);
    CHECK(source >= 0 && copy >= 0);
    char buffer[65536];
    for (ssize_t got; (got = read(source, buffer, sizeof buffer)) > 0;) CHECK_EQ(write(copy, buffer, got), got);
    pid_t child = fork();
    if (child == 0) {
        char *arguments[] = {"in-memory", "x", NULL};
        fexecve(copy, arguments, environ);
        check_failed("fexecve failed\n");
    }
    printf("exit %d\n", exit_code_of(child));
}
