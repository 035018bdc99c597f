// fork: separate memory, own ids, all exit codes, many children, a chain of generations.
#include "check.h"

static int value = 1;

int main(void) {
    pid_t parent = getpid();
    for (int code = 0; code < 256; code += 17) {
        pid_t child = fork();
        if (child == 0) {
            CHECK_EQ(getppid(), parent);
            CHECK(getpid() != parent);
            value += code;
            _exit(value - 1);
        }
        CHECK_EQ(exit_code_of(child), code);
        CHECK_EQ(value, 1);
    }
    pid_t child = fork();
    if (child == 0) _exit(0x1234);
    printf("low byte of the code: %d\n", exit_code_of(child));

    pid_t children[40];
    for (int i = 0; i < 40; i++) {
        children[i] = fork();
        if (children[i] == 0) _exit(i);
    }
    for (int i = 39; i >= 0; i--) CHECK_EQ(exit_code_of(children[i]), i);
    puts("40 children");

    int depth = 0;
    while (depth < 10 && (child = fork()) == 0) depth++;
    int below = depth < 10 ? exit_code_of(child) : 0;
    if (depth > 0) _exit(below + 1);
    printf("%d generations\n", below);
}
