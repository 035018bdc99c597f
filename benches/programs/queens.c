// N queens by bit masks: integer arithmetic, unpredictable branches, deep recursion.
#include <stdio.h>

static unsigned all;

__attribute__((noinline)) static unsigned long place(unsigned columns, unsigned left, unsigned right)
{
    if (columns == all)
        return 1;
    unsigned long solutions = 0;
    unsigned free_squares = all & ~(columns | left | right);
    while (free_squares) {
        unsigned square = free_squares & -free_squares;
        free_squares ^= square;
        solutions += place(columns | square, (left | square) << 1, (right | square) >> 1);
    }
    return solutions;
}

int main(void)
{
    for (int round = 0; round < 3; round++)
        for (int n = 4; n <= 14; n++) {
            all = (1u << n) - 1;
            printf("%d queens: %lu\n", n, place(0, 0, 0));
        }
    return 0;
}
