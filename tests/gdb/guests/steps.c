/* Calls, loops, recursion and a jump out of a function, to be stepped through in both directions. */

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

static int sum_to(int last)
{
    int sum = 0;
    for (int i = 1; i <= last; i++) sum += i;
    return sum;
}

int main(void)
{
    for (int i = 0; i < 5; i++)
        total += square(i);
    total += factorial(5);
    total += sum_to(1000);
    if (setjmp(back) == 0)
        for (int i = 0; i < 10; i++)
            escape(i);
    printf("%d\n", total);
    return 0;
}
