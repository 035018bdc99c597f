// A bytecode interpreter with computed goto: one indirect jump per guest operation, the
// worst case for a translator's indirect-branch lookup.
#include <stdio.h>

enum { PUSH, LOAD, STORE, ADD, SUB, MUL, MOD, LESS, JUMP, JUMP_IF_ZERO, PEEK, POKE, PRINT, HALT };

typedef long Word;

static Word memory[65536];

static Word run(const Word *code, Word *executed)
{
    static const void *const handler[] = {
        &&push, &&load, &&store, &&add, &&sub, &&mul, &&mod, &&less,
        &&jump, &&jump_if_zero, &&peek, &&poke, &&print, &&halt,
    };
    Word stack[64], local[16] = {0};
    Word *top = stack;
    const Word *pc = code;
    Word count = 0;
#define NEXT do { count++; goto *handler[*pc++]; } while (0)
    NEXT;
push:         *top++ = *pc++; NEXT;
load:         *top++ = local[*pc++]; NEXT;
store:        local[*pc++] = *--top; NEXT;
add:          top--; top[-1] += top[0]; NEXT;
sub:          top--; top[-1] -= top[0]; NEXT;
mul:          top--; top[-1] *= top[0]; NEXT;
mod:          top--; top[-1] %= top[0]; NEXT;
less:         top--; top[-1] = top[-1] < top[0]; NEXT;
jump:         pc = code + *pc; NEXT;
jump_if_zero: { Word target = *pc++; if (*--top == 0) pc = code + target; NEXT; }
peek:         top[-1] = memory[top[-1] & 65535]; NEXT;
poke:         top -= 2; memory[top[0] & 65535] = top[1]; NEXT;
print:        printf("%ld\n", *--top); NEXT;
halt:
    *executed += count;
    return local[0];
}

// A linear congruential generator summed modulo 1021. local 0: sum; 1: i; 2: limit; 3: state.
static const Word mix[] = {
    /*  0 */ PUSH, 10000000, STORE, 2,
    /*  4 */ LOAD, 1, LOAD, 2, LESS, JUMP_IF_ZERO, 43,
    /* 11 */ LOAD, 3, PUSH, 1103515245, MUL, PUSH, 12345, ADD, PUSH, 2147483648, MOD, STORE, 3,
    /* 24 */ LOAD, 0, LOAD, 3, PUSH, 1021, MOD, ADD, STORE, 0,
    /* 34 */ LOAD, 1, PUSH, 1, ADD, STORE, 1, JUMP, 4,
    /* 43 */ LOAD, 0, PRINT, HALT,
};

// The sieve of Eratosthenes over `memory`. local 1: i; 2: limit; 3: j; 0: primes found.
static const Word sieve[] = {
    /*  0 */ PUSH, 65536, STORE, 2, PUSH, 2, STORE, 1,
    /*  8 */ LOAD, 1, LOAD, 2, LESS, JUMP_IF_ZERO, 61,
    /* 15 */ LOAD, 1, PEEK, JUMP_IF_ZERO, 22, JUMP, 52,
    /* 22 */ LOAD, 0, PUSH, 1, ADD, STORE, 0,
    /* 29 */ LOAD, 1, LOAD, 1, ADD, STORE, 3,
    /* 36 */ LOAD, 3, LOAD, 2, LESS, JUMP_IF_ZERO, 52,
    /* 43 */ LOAD, 3, PUSH, 1, POKE, LOAD, 3, JUMP, 63,
    /* 52 */ LOAD, 1, PUSH, 1, ADD, STORE, 1, JUMP, 8,
    /* 61 */ HALT, HALT,
    /* 63 */ LOAD, 1, ADD, STORE, 3, JUMP, 36,
};

int main(void)
{
    Word executed = 0;
    for (int round = 0; round < 90; round++) {
        for (int i = 0; i < 65536; i++)
            memory[i] = 0;
        Word primes = run(sieve, &executed);
        if (round % 10 == 0)
            printf("primes %ld\n", primes);
    }
    run(mix, &executed);
    printf("executed %ld\n", executed);
    return 0;
}
