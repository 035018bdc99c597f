// The second of two libraries with the same names and different code.
#include <stdio.h>
int counter = 50;
int compute(int x) {
    counter++;
    return x * x;
}
const char *name(void) { return "two"; }
__attribute__((constructor)) static void load(void) { counter *= 2; }
