/* Writes to a global variable, a field on the heap and a local one; some leave what was there, some write a part. */

#include <stdlib.h>
#include <string.h>

struct box {
    long before;
    long value;
};

static long global;

static void put(long *to, long value)
{
    *to = value;
}

static long exercise(struct box *box)
{
    long local = 1;
    for (int i = 0; i < 6; i++) {
        /* 0 0 1 1 2 2: every second write changes nothing. */
        put(&global, i / 2);
        put(&box->value, i / 2);
        put(&local, i / 2);
    }
    ((char *)&global)[1] = 7;
    ((char *)&box->value)[1] = 7;
    ((char *)&local)[1] = 7;
    memset(box, 0, sizeof *box);
    memcpy(&global, &box->value, sizeof global);
    put(&local, 3);
    return local + global + box->value;
}

int main(void)
{
    struct box *box = malloc(sizeof *box);
    if (box == NULL)
        return 2;
    box->value = 1;
    long sum = exercise(box);
    free(box);
    return sum == 3 ? 0 : 1;
}
