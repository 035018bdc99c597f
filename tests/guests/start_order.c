// The order of start and end: preinit, constructors by priority, main, exit handlers, destructors,
// each with the arguments it is promised.
// args: argument
#include "check.h"

static int step;
static void preinit(int argc, char **argv, char **environment) {
    CHECK(argc == 2 && environment != NULL && strcmp(argv[1], "argument") == 0);
    CHECK_EQ(step++, 0);
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit_entry)(int, char **, char **) = preinit;
__attribute__((constructor(201))) static void early(int argc, char **argv) {
    CHECK(argc == 2 && argv[2] == NULL);
    CHECK_EQ(step++, 1);
}
__attribute__((constructor(202))) static void middle(void) { CHECK_EQ(step++, 2); }
__attribute__((constructor)) static void late(void) { CHECK_EQ(step++, 3); }
__attribute__((destructor)) static void first_down(void) { printf("destructor %d\n", step++); }
__attribute__((destructor(201))) static void last_down(void) { printf("last destructor %d\n", step++); }
static void at_end(void) { printf("exit handler %d\n", step++); }

int main(void) {
    CHECK_EQ(step++, 4);
    atexit(at_end);
    printf("main %d\n", step);
}
