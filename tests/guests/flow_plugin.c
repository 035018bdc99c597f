// A plugin: functions called both ways, callbacks, lazy binding, its own thread-local variable,
// and symbols that the program overrides.
// build: -rdynamic -ldl -pthread
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>

struct plugin {
    int (*transform)(int (*callback)(int), int);
    int (*count_calls)(void);
    const char *(*describe)(char *, int);
};

int program_value(int x) { return x * 10; }
static int callback(int x) { return x + 3; }

static struct plugin *plugin;
static void *in_thread(void *unused) {
    (void)unused;
    for (int i = 0; i < 5; i++) plugin->count_calls();
    return (void *)(long)plugin->count_calls();
}

int main(int argc, char **argv) {
    CHECK_EQ(argc, 2);
    void *library = dlopen(argv[1], RTLD_LAZY);
    if (!library) check_failed("%s\n", dlerror());
    plugin = dlsym(library, "the_plugin");
    CHECK(plugin != NULL);
    long sum = 0;
    for (int i = 0; i < 1000; i++) sum += plugin->transform(callback, i);
    printf("sum %ld\n", sum);
    for (int i = 0; i < 9; i++) plugin->count_calls();
    pthread_t thread;
    void *count;
    CHECK_EQ(pthread_create(&thread, NULL, in_thread, NULL), 0);
    pthread_join(thread, &count);
    printf("main %d, thread %ld\n", plugin->count_calls(), (long)count);
    char text[100];
    puts(plugin->describe(text, sizeof text));
    CHECK_EQ(dlclose(library), 0);
}
