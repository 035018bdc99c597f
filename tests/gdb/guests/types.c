/* Values of all kinds of types, and functions to look at them in. */

#include <complex.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum color { RED, GREEN = 5, BLUE };
enum flags { READ = 1, WRITE = 2, EXECUTE = 4 };

union number {
    int64_t whole;
    double real;
    unsigned char bytes[8];
};

struct bits {
    unsigned low : 3;
    signed middle : 5;
    bool high : 1;
};

struct point { int x, y; };

struct node {
    const char *name;
    enum color color;
    enum flags rights;
    struct bits bits;
    union number number;
    struct point corners[2];
    int (*change)(struct node *, int);
    struct node *next;
};

static int set_color(struct node *node, int color)
{
    node->color = (enum color)color;
    return color;
}

static struct node second = { .name = "second", .color = BLUE };
static struct node first = {
    .name = "first",
    .color = GREEN,
    .rights = READ | EXECUTE,
    .bits = { 5, -3, true },
    .number.whole = 0x4045000000000000,
    .corners = { { 1, 2 }, { 3, 4 } },
    .change = set_color,
    .next = &second,
};
static int matrix[2][3] = { { 1, 2, 3 }, { 4, 5, 6 } };
static const char text[] = "line\n\ttab \"quote\" \303\244";
static float complex impedance = 3.0F + 4.0F * I;
static double weights[4] = { 0.5, -1.25, 1e100, 0 };

static double scale(double factor, const double *values, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += factor * values[i];
    return sum;
}

static int depth(int left)
{
    int below = 0;
    if (left > 0)
        below = depth(left - 1);
    return below + 1;
}

int main(void)
{
    int deep = depth(3);
    double scaled = scale(2.0, weights, 2);
    int changed = first.change(&first, RED);
    int length = (int)strlen(text);
    return deep + (scaled < 0) + changed + length + matrix[1][2] + (int)crealf(impedance) > 0 ? 0 : 1;
}
