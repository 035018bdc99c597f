/* Changes its environment before anything else, then writes the auxiliary vector that the kernel shows it. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <fcntl.h>

static volatile unsigned long spun;

int main(int argc, char **argv)
{
    unsetenv("HOME");
    char vector[4096];
    int file = open("/proc/self/auxv", O_RDONLY);
    ssize_t length = read(file, vector, sizeof vector);
    if (length < 0 || write(1, vector, length) != length)
        return 1;
    /* Long enough for many intervals; only then are the arguments read. */
    for (unsigned long i = 0; i < 300000; i++)
        spun += i;
    unsigned long sum = 0;
    for (int i = 1; i < argc; i++)
        for (char *at = argv[i]; *at; at++)
            sum += *at;
    return sum == 1;
}
