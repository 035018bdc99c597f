// SIGKILL to oneself.
// signal: SIGKILL
#include "check.h"

int main(void) {
    puts("before");
    kill(getpid(), SIGKILL);
    puts("after");
}
