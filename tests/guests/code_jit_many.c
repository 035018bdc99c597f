// A JIT that keeps adding functions to a page between calls of the earlier ones, then throws all
// away and starts again; functions call each other.
#include "check.h"

static unsigned char *arena;
static int used;

static void *emit(int constant, void *callee) {
    unsigned char *start = arena + used, *at = start;
    *at++ = 0x8d, *at++ = 0x87; // lea eax, [rdi + constant]
    memcpy(at, &constant, 4), at += 4;
    if (callee) {
        *at++ = 0x89, *at++ = 0xc7; // mov edi, eax
        *at++ = 0xe9;               // jmp callee
        int distance = (int)((unsigned char *)callee - (at + 4));
        memcpy(at, &distance, 4), at += 4;
    } else *at++ = 0xc3;
    used += (int)(at - start + 7) & ~7;
    return start;
}

int main(void) {
    arena = mmap(NULL, 65536, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(arena != MAP_FAILED);
    uint64_t hash = 0;
    for (int generation = 0; generation < 20; generation++) {
        void *functions[400];
        int expected[400];
        used = 0;
        for (int i = 0; i < 400; i++) {
            int constant = generation * 1000 + i, callee = i > 3 ? (i * 7 + generation) % i : -1;
            functions[i] = emit(constant, callee >= 0 && i % 3 ? functions[callee] : NULL);
            expected[i] = constant + (callee >= 0 && i % 3 ? expected[callee] : 0);
            // Old ones still right after the page was written again.
            int probe = i / 2;
            CHECK_EQ(((int (*)(int))functions[i])(5), 5 + expected[i]);
            CHECK_EQ(((int (*)(int))functions[probe])(9), 9 + expected[probe]);
            hash = hash * 31 + expected[i];
        }
    }
    printf("8000 functions, hash %016lx\n", hash);
}
