// Dispatch: a big switch with a jump table, computed goto, a megamorphic function pointer, and a
// small bytecode interpreter run over a long program.
// build: -O2
#include "check.h"

#define CASE(n) case n: x = x * (2 * n + 1) + n; break;
#define CASE8(n) CASE(n) CASE(n + 1) CASE(n + 2) CASE(n + 3) CASE(n + 4) CASE(n + 5) CASE(n + 6) CASE(n + 7)
#define CASE64(n) CASE8(n) CASE8(n + 8) CASE8(n + 16) CASE8(n + 24) CASE8(n + 32) CASE8(n + 40) CASE8(n + 48) CASE8(n + 56)

__attribute__((noinline)) static uint64_t big_switch(uint64_t x, int which) {
    switch (which) {
        CASE64(0) CASE64(64) CASE64(128) CASE64(192)
    default: x ^= 0x5555;
    }
    return x;
}

static uint64_t interpret(const unsigned char *program, int steps) {
    static void *const labels[] = {&&add, &&sub, &&mul, &&rotate, &&xor, &&swap, &&dup, &&jump_back};
    uint64_t a = 1, b = 2;
    int at = 0, backs = 0;
#define NEXT                                      \
    do {                                          \
        if (steps-- == 0) return a ^ b;           \
        goto *labels[program[at++ & 1023] & 7];   \
    } while (0)
    NEXT;
add: a += b; NEXT;
sub: a -= b * 3; NEXT;
mul: a *= b | 1; NEXT;
rotate: a = a << 7 | a >> 57; NEXT;
xor: b ^= a; NEXT;
swap: { uint64_t t = a; a = b; b = t; } NEXT;
dup: b = a + 1; NEXT;
jump_back: if (++backs % 3) at -= 5; NEXT;
}

#define FUNCTION(n) static uint64_t f##n(uint64_t x) { return x * (n + 3) + n; }
FUNCTION(0) FUNCTION(1) FUNCTION(2) FUNCTION(3) FUNCTION(4) FUNCTION(5) FUNCTION(6) FUNCTION(7)
FUNCTION(8) FUNCTION(9) FUNCTION(10) FUNCTION(11) FUNCTION(12) FUNCTION(13) FUNCTION(14) FUNCTION(15)
static uint64_t (*const pointers[])(uint64_t) = {f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15};

int main(void) {
    uint64_t x = 1;
    for (int i = 0; i < 200000; i++) x = big_switch(x + i, (int)((x + i) >> 7) % 300);
    printf("switch %016lx\n", x);
    unsigned char program[1024];
    for (int i = 0; i < 1024; i++) program[i] = (unsigned char)((i * 2654435761u) >> 13);
    printf("interpreter %016lx\n", interpret(program, 1000000));
    x = 1;
    for (int i = 0; i < 500000; i++) x = pointers[x >> 20 & 15](x);
    printf("pointers %016lx\n", x);
}
