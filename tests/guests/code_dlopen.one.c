// The first of two libraries with the same names and different code.
#include <stdio.h>
int counter = 100;
int compute(int x) {
    counter++;
    return x + 1000;
}
const char *name(void) { return "one"; }
__attribute__((constructor)) static void load(void) { counter = 100; }
