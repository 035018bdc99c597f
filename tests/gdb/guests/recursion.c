// Functions that call themselves, and one that jumps out of itself.
#include <setjmp.h>

static jmp_buf out;
static int leaves;
static int *nowhere;

static long fib(int n)
{
    if (n < 2)
        return n;
    long a = fib(n - 1);
    long b = fib(n - 2);
    return a + b;
}

static void walk(int n)
{
    if (n == 0) {
        if (++leaves == 3)
            longjmp(out, 1);
        return;
    }
    walk(n - 1);
    walk(n - 1);
}

static void sink(int n)
{
    if (n == 0)
        *nowhere = 1;
    sink(n - 1);
}

int main(void)
{
    long sum = fib(6);
    if (setjmp(out) == 0)
        walk(4);
    sum += fib(22);
    sink(40);
    return (int)sum;
}
