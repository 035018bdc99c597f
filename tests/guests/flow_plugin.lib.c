// The plugin of flow_plugin: calls back into the program and the C library.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int program_value(int x);

static __thread int calls;
static int transform(int (*callback)(int), int x) { return callback(program_value(x)); }
static int count_calls(void) { return ++calls; }
static const char *describe(char *text, int size) {
    char *copy = strdup("plugin");
    snprintf(text, size, "%s of %zu letters", copy, strlen(copy));
    free(copy);
    return text;
}

struct plugin {
    int (*transform)(int (*callback)(int), int);
    int (*count_calls)(void);
    const char *(*describe)(char *, int);
} the_plugin = {transform, count_calls, describe};
