// After fork, parent and child change the same code differently; a vfork child changes the
// parent's.
#include "check.h"

static int call(unsigned char *page) { return ((int (*)(void))page)(); }

int main(void) {
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    memcpy(page, "\xb8\x01\x00\x00\x00\xc3", 6);
    CHECK_EQ(call(page), 1);
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK_EQ(call(page), 1);
        page[1] = 50;
        CHECK_EQ(call(page), 50);
        char byte;
        CHECK_EQ(read(ends[0], &byte, 1), 1);
        _exit(call(page));
    }
    page[1] = 60;
    CHECK_EQ(call(page), 60);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    printf("child %d, parent %d\n", exit_code_of(child), call(page));
    child = vfork();
    if (child == 0) {
        page[1] = 70;
        _exit(0);
    }
    CHECK_EQ(exit_code_of(child), 0);
    printf("after vfork %d\n", call(page));
}
