/* A library that is opened, used and closed, twice. */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static int last;

static int use(const char *path, int value)
{
    void *library = dlopen(path, RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    int (*twice)(int) = (int (*)(int))dlsym(library, "twice");
    int result = twice(value);
    dlclose(library);
    return result;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 3;
    last = use(argv[1], 4);
    last = use(argv[1], last + 1);
    return last == 18 ? 0 : 1;
}
