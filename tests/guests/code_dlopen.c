// dlopen, dlclose, dlopen of two libraries in turn: they usually land at the same address with
// different code.
// build: -ldl
#include "check.h"
#include <dlfcn.h>

int main(int argc, char **argv) {
    CHECK_EQ(argc, 3);
    for (int i = 0; i < 50; i++) {
        void *library = dlopen(argv[1 + i % 2], RTLD_NOW | RTLD_LOCAL);
        if (!library) check_failed("%s\n", dlerror());
        int (*compute)(int) = (int (*)(int))dlsym(library, "compute");
        const char *(*name)(void) = (const char *(*)(void))dlsym(library, "name");
        int *counter = dlsym(library, "counter");
        CHECK(compute && name && counter);
        CHECK(dlsym(library, "no_such_symbol") == NULL);
        CHECK_EQ(*counter, 100);
        for (int j = 0; j < 20; j++) CHECK_EQ(compute(j), i % 2 ? j * j : j + 1000);
        CHECK_EQ(*counter, 120);
        if (i < 2) printf("%s: %d\n", name(), compute(7));
        CHECK_EQ(dlclose(library), 0);
    }
    CHECK(dlopen("/does/not/exist.so", RTLD_NOW) == NULL);
    puts("50 times loaded and unloaded");
}
