// The environment: what the parent set arrives, nothing else is added, removal works, and
// strange entries pass through.
#include "check.h"

extern char **environ;

int main(int argc, char **argv) {
    if (argc > 1) {
        for (int i = 0; environ[i]; i++) printf("  %s\n", environ[i]);
        return 0;
    }
    for (int i = 0; environ[i]; i++) CHECK(strncmp(environ[i], "RETRO", 5) != 0);
    char *environment[] = {"A=1", "EMPTY=", "NO_EQUALS_SIGN", "A=twice", "=nameless", "LAST=with = sign", NULL};
    char *arguments[] = {argv[0], "show", NULL};
    pid_t child = fork();
    if (child == 0) {
        execve(argv[0], arguments, environment);
        _exit(1);
    }
    CHECK_EQ(exit_code_of(child), 0);
    child = fork();
    if (child == 0) {
        clearenv();
        setenv("SET", "value", 1);
        setenv("UNSET", "value", 1);
        unsetenv("UNSET");
        putenv("PUT=here");
        execv(argv[0], arguments);
        _exit(1);
    }
    CHECK_EQ(exit_code_of(child), 0);
    child = fork();
    if (child == 0) {
        clearenv();
        setenv("LD_BIND_NOW", "1", 1);
        setenv("MALLOC_PERTURB_", "85", 1);
        execv(argv[0], arguments);
        _exit(1);
    }
    CHECK_EQ(exit_code_of(child), 0);
}
