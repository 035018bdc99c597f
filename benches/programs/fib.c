// Recursion and nothing else: a call and a return every few instructions, the worst case
// for a translator's handling of returns.
#include <stdio.h>

__attribute__((noinline, noclone)) static unsigned long fib(unsigned n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

__attribute__((noinline, noclone)) static int tak(int x, int y, int z)
{
    return y >= x ? z : tak(tak(x - 1, y, z), tak(y - 1, z, x), tak(z - 1, x, y));
}

__attribute__((noinline, noclone)) static unsigned ackermann(unsigned m, unsigned n)
{
    if (m == 0)
        return n + 1;
    if (n == 0)
        return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

int main(void)
{
    printf("fib %lu\n", fib(41));
    printf("tak %d\n", tak(24, 16, 8));
    printf("ackermann %u\n", ackermann(2, 4000));
    return 0;
}
