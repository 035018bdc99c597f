// exit runs handlers in reverse order and flushes; _exit and quick_exit do not; destructors run
// last; the code comes from the last exit.
// exit: 44
#include "check.h"
#include <sys/wait.h>

static void first(void) { puts("first registered"); }
static void second(void) { puts("second registered"); }
static void with_status(int status, void *argument) { printf("status %d, %s\n", status, (char *)argument); }
static void change_code(void) {
    fflush(stdout);
    _exit(44);
}
static void quick(void) { puts("quick handler"); }

__attribute__((destructor)) static void destroy(void) { puts("destructor"); }
__attribute__((constructor)) static void construct(void) { puts("constructor"); }

int main(void) {
    atexit(first);
    atexit(second);
    on_exit(with_status, "argument");
    at_quick_exit(quick);
    pid_t child = fork();
    if (child == 0) exit(11);
    printf("exit: %d\n", exit_code_of(child));
    child = fork();
    if (child == 0) _exit(12);
    printf("_exit: %d\n", exit_code_of(child));
    child = fork();
    if (child == 0) quick_exit(13);
    printf("quick_exit: %d\n", exit_code_of(child));
    child = fork();
    if (child == 0) {
        setvbuf(stdout, malloc(4096), _IOFBF, 4096);
        printf("flushed at exit\n");
        exit(14);
    }
    printf("buffered: %d\n", exit_code_of(child));
    child = fork();
    if (child == 0) {
        setvbuf(stdout, malloc(4096), _IOFBF, 4096);
        printf("never seen\n");
        syscall(SYS_exit_group, 15);
    }
    printf("exit_group: %d\n", exit_code_of(child));
    atexit(change_code);
    return 3;
}
