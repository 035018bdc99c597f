// An unhandled fault ends the process with its signal; what was written before is kept.
// signal: SIGSEGV
#include "check.h"

int main(void) {
    puts("before");
    *(volatile int *)0 = 1;
    puts("after");
}
