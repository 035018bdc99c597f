/* What plugin.c opens. */

static int uses;

int twice(int value)
{
    uses++;
    int result = 2 * value;
    return result;
}
