/* Functions that are entered by jumps from others, and the unlikely part of a function, which the compiler puts elsewhere: what a
   function was called with is known at its entry alone. */

#include <stdio.h>

typedef long (*handler)(long *arguments, long count);

static volatile long sink;

__attribute__((noipa)) static long mix(long number)
{
    for (int i = 0; i < 20; i++)
        sink += number ^ sink >> 3;
    return sink;
}

__attribute__((noipa)) static long get(long value, long count)
{
    sink += value + count;
    /* From here on nobody needs them. */
    for (int i = 0; i < 10; i++)
        sink += mix(i);
    return sink;
}

__attribute__((noipa)) static long one(long *arguments, long count)
{
    if (count == 1)
        return get(arguments[0] * 3 + 1, count + 7);
    return count;
}

__attribute__((noipa)) static long two(long *arguments, long count)
{
    return get(arguments[0] - count, arguments[1]);
}

__attribute__((noipa)) static long dispatch(handler called, long *arguments, long count)
{
    long result = called(arguments, count);
    return result + arguments[0] + count;
}

__attribute__((noipa, cold)) static long rare(long number)
{
    for (int i = 0; i < 10; i++)
        sink += mix(number + i);
    return sink;
}

__attribute__((noipa)) static long look(long key, long *table)
{
    long index = key & 1;
    if (__builtin_expect(table[index] >= 0, 0))
        /* Here the key is in no register any more. */
        sink += rare(index);
    return table[index];
}

int main(void)
{
    static handler handlers[] = {one, two};
    long arguments[2] = {17, 4};
    long sum = 0;
    for (int i = 0; i < 200; i++) {
        arguments[0] = i;
        sum += dispatch(handlers[i % 2], arguments, 1);
        sum += look(i + 1000, arguments);
    }
    printf("%d\n", sum != 0);
    return 0;
}
