// Many and long arguments and variables: all arrive, in order, in one piece; an empty argument
// list is what the kernel makes of it.
#include "check.h"

extern char **environ;

int main(int argc, char **argv) {
    if (argc == 1 && argv[0][0] == 0) {
        printf("no arguments: %d\n", argc);
        return 0;
    }
    if (argc > 1) {
        uint64_t hash = 0;
        long total = 0;
        for (int i = 0; i < argc; i++)
            for (char *at = argv[i]; *at; at++) hash = hash * 31 + (unsigned char)*at, total++;
        // Only our own variables: the rest differs from machine to machine.
        for (int i = 0; environ[i]; i++)
            if (strncmp(environ[i], "BIG", 3) == 0)
                for (char *at = environ[i]; *at; at++) hash = hash * 31 + (unsigned char)*at, total++;
        printf("%d arguments, %ld bytes, hash %016lx\n", argc, total, hash);
        return 0;
    }
    static char *arguments[5002];
    arguments[0] = "fixed";
    for (int i = 1; i < 5000; i++) {
        arguments[i] = malloc(220);
        int length = sprintf(arguments[i], "argument %d ", i);
        memset(arguments[i] + length, 'a' + i % 26, 100 + i % 100);
        arguments[i][length + 100 + i % 100] = 0;
    }
    char *long_value = malloc(131000);
    memset(long_value, 'v', 130999);
    long_value[130999] = 0;
    setenv("BIG", long_value, 1);
    pid_t child = fork();
    if (child == 0) {
        execv(argv[0], arguments);
        _exit(1);
    }
    CHECK_EQ(exit_code_of(child), 0);
    child = fork();
    if (child == 0) {
        char *none[] = {NULL};
        execve(argv[0], none, environ);
        _exit(1);
    }
    CHECK_EQ(exit_code_of(child), 0);
}
