/* Jumps out of a function, recursion and loops. It is stopped in its own functions only: those of the C library have other
   names on other processors, and no names where its debug information is missing. */

#include <setjmp.h>
#include <stdio.h>

static int total;
static jmp_buf back;

static int square(int x)
{
    int result = x * x;
    return result;
}

static int factorial(int n)
{
    if (n <= 1)
        return 1;
    return n * factorial(n - 1);
}

static void escape(int value)
{
    if (value > 2)
        longjmp(back, value);
    total += value;
}

static void report(int value)
{
    printf("%d\n", value);
}

int main(void)
{
    for (int i = 0; i < 5; i++)
        total += square(i);
    total += factorial(5);
    if (setjmp(back) == 0)
        for (int i = 0; i < 10; i++)
            escape(i);
    report(total);
    return 0;
}
