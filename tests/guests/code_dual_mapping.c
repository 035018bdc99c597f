// A JIT with two views of one memory: written through one address, executed at another, changed
// between calls without any system call.
#include "check.h"

int main(void) {
    int memory = memfd_create("jit", MFD_CLOEXEC);
    CHECK(memory >= 0);
    CHECK_EQ(ftruncate(memory, 65536), 0);
    unsigned char *writable = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    unsigned char *executable = mmap(NULL, 65536, PROT_READ | PROT_EXEC, MAP_SHARED, memory, 0);
    CHECK(writable != MAP_FAILED && executable != MAP_FAILED && writable != executable);
    long sum = 0;
    for (int i = 0; i < 3000; i++) {
        writable[0] = 0xb8;
        memcpy(writable + 1, &i, 4);
        writable[5] = 0xc3;
        // Code written through another address needs a serialising instruction before it runs.
        asm volatile("cpuid" : : "a"(0) : "ebx", "ecx", "edx", "memory");
        int got = ((int (*)(void))executable)();
        CHECK_EQ(got, i);
        sum += got;
    }
    printf("sum %ld\n", sum);

    // Many functions, each called before and after a change of its neighbour.
    for (int i = 0; i < 500; i++) {
        unsigned char *at = writable + i * 64;
        memcpy(at, "\x8d\x87\x00\x00\x00\x00\xc3", 7); // lea eax, [rdi + disp32]; ret
        memcpy(at + 2, &i, 4);
    }
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 500; i++) {
            int (*function)(int) = (int (*)(int))(executable + i * 64);
            CHECK_EQ(function(1000), 1000 + i + round);
        }
        for (int i = 0; i < 500; i++) writable[i * 64 + 2]++, writable[i * 64 + 3] += writable[i * 64 + 2] == 0;
        asm volatile("cpuid" : : "a"(0) : "ebx", "ecx", "edx", "memory");
    }
    puts("500 functions, 5 versions");

    // Written with a system call, and from another process.
    CHECK_EQ(pwrite(memory, "\xb8\x2a\x00\x00\x00\xc3", 6, 0), 6);
    CHECK_EQ(((int (*)(void))executable)(), 42);
    pid_t child = fork();
    if (child == 0) {
        writable[1] = 43;
        _exit(0);
    }
    CHECK_EQ(exit_code_of(child), 0);
    CHECK_EQ(((int (*)(void))executable)(), 43);
    puts("changed by a file write and by a child");
}
