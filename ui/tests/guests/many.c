/* Calls a function a million times. */
#include <stdio.h>

static long sum;

__attribute__((noinline)) static long bump(long number)
{
    sum += number;
    return sum & 0xff;
}

int main(void)
{
    for (long i = 0; i < 1000000; i++)
        bump(i);
    printf("%ld\n", sum);
    return 0;
}
