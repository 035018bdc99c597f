// Parent and child write to the same 8 MiB after fork, in code and data; each sees its own.
#include "check.h"

#define SIZE (8 << 20)

int main(void) {
    unsigned char *base = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED);
    for (int i = 0; i < SIZE; i += 64) base[i] = (unsigned char)(i / 64);
    int to_child[2], to_parent[2];
    CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
    pid_t child = fork();
    unsigned char add = child ? 1 : 2;
    for (int i = 0; i < SIZE; i += 4096) base[i] += add;
    char byte = 0;
    if (child) {
        CHECK_EQ(write(to_child[1], &byte, 1), 1);
        CHECK_EQ(read(to_parent[0], &byte, 1), 1);
    } else {
        CHECK_EQ(read(to_child[0], &byte, 1), 1);
        CHECK_EQ(write(to_parent[1], &byte, 1), 1);
    }
    for (int i = 0; i < SIZE; i += 64)
        CHECK_EQ(base[i], (unsigned char)(i / 64 + (i % 4096 ? 0 : add)));
    if (child == 0) _exit(19);
    printf("child %d\n", exit_code_of(child));
}
