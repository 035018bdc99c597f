// A statically linked position-independent program relocates itself.
// build: -static-pie
#include "check.h"
#include <sys/auxv.h>

static int value = 7;
static int *pointer = &value;
static int (*function)(const char *, ...) = printf;

int main(void) {
    CHECK_EQ(getauxval(AT_BASE), 0);
    CHECK(pointer == &value);
    function("relocated: %d\n", *pointer);
    char *text = strdup("heap");
    puts(text);
    free(text);
}
