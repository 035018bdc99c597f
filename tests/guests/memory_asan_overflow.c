// AddressSanitizer in a program that writes behind a block of the heap: the report and its status.
// sanitizer: address
// exit: 1
// stderr: has heap-buffer-overflow
#include "check.h"

int main(int count, char **arguments) {
    (void)arguments;
    volatile char *block = malloc(count * 20);
    for (int i = 0; i < 20; i++) block[i] = 1;
    printf("inside: %d\n", block[19]);
    block[count * 20] = 2;
    printf("outside: %d\n", block[count * 20]);
    free((char *)block);
}
