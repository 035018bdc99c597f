// With an unlimited stack, or when asked for, the kernel places mappings from the bottom up: the
// program's view of its memory stays its own, and its mappings stay where they are.
#include "check.h"
#include <sys/personality.h>
#include <sys/resource.h>

static void look(void) {
    // Much memory, in many pieces: whatever else lives in the process must not be in the way.
    static char *pieces[200];
    for (int i = 0; i < 200; i++) {
        pieces[i] = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(pieces[i] != MAP_FAILED);
        memset(pieces[i], i, 4096);
    }
    FILE *file = fopen("/proc/self/maps", "r");
    CHECK(file != NULL);
    char line[600];
    int stack = 0, regions = 0;
    while (fgets(line, sizeof line, file)) {
        CHECK(!is_translators(line));
        stack += strstr(line, "[stack]") != NULL;
        regions++;
    }
    fclose(file);
    CHECK(regions > 5);
    for (int i = 0; i < 200; i++) CHECK_EQ(pieces[i][4095], (char)i);
    printf("stack %d\n", stack);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        look();
        return 0;
    }
    for (int variant = 0; variant < 2; variant++) {
        pid_t child = fork();
        if (child == 0) {
            struct rlimit limit;
            CHECK_EQ(getrlimit(RLIMIT_STACK, &limit), 0);
            limit.rlim_cur = limit.rlim_max;
            if (variant == 0) CHECK_EQ(setrlimit(RLIMIT_STACK, &limit), 0);
            else CHECK(personality(ADDR_COMPAT_LAYOUT) != -1);
            execl(argv[0], argv[0], "look", NULL);
            _exit(1);
        }
        CHECK_EQ(exit_code_of(child), 0);
    }
}
