/* Puts a link to the home directory where its own recording is. */
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    if (rename("recording", "moved") != 0 || symlink("home", "recording") != 0)
        return 1;
    /* Something to record. */
    volatile unsigned sum = 0;
    for (int round = 0; round < 200; round++) {
        for (int step = 0; step < 10000; step++)
            sum += step * round;
        if (write(2, ".", 1) != 1)
            return 2;
    }
    return 7;
}
