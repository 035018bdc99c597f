/* A recursion, and a function that does not return: gdb asks before it finishes that. */

#include <stdlib.h>

static int total;

static int depth_of(int n)
{
    int depth = n == 0 ? 0 : 1 + depth_of(n - 1);
    return depth;
}

static _Noreturn void leave(int status)
{
    total += depth_of(3);
    exit(status);
}

int main(void)
{
    total += depth_of(4);
    leave(0);
}
