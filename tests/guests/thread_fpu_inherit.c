// Rounding modes and masks of a new thread and of a forked process are those of their creator;
// a new program starts with the defaults.
// build: -pthread -lm
#include "check.h"
#include <fenv.h>
#include <pthread.h>
#include <xmmintrin.h>

static void *look(void *unused) {
    (void)unused;
    unsigned short control;
    asm volatile("fnstcw %0" : "=m"(control));
    printf("rounding %#x, mxcsr %#x, control %#x\n", fegetround(), _mm_getcsr() & ~0x3f, control);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        look(NULL);
        return 0;
    }
    look(NULL);
    fesetround(FE_TOWARDZERO);
    _mm_setcsr(_mm_getcsr() | 0x8000);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, look, NULL), 0);
    pthread_join(thread, NULL);
    pid_t child = fork();
    if (child == 0) {
        look(NULL);
        _exit(0);
    }
    CHECK_EQ(exit_code_of(child), 0);
    child = fork();
    if (child == 0) {
        execl(argv[0], argv[0], "look", NULL);
        _exit(1);
    }
    CHECK_EQ(exit_code_of(child), 0);
    look(NULL);
}
