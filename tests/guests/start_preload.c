// LD_PRELOAD and LD_LIBRARY_PATH: a preloaded library replaces a function and passes others on.
// build: -ldl
#include "check.h"

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    if (argc == 3) {
        printf("getppid says %d\n", getppid());
        printf("getpid passed on: %d\n", getpid() > 0);
        return 0;
    }
    CHECK(getppid() != 424242);
    pid_t child = fork();
    if (child == 0) {
        setenv("LD_PRELOAD", argv[1], 1);
        execl(argv[0], argv[0], argv[1], "again", NULL);
        _exit(1);
    }
    printf("exit %d\n", exit_code_of(child));
}
