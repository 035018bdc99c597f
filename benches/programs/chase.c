// Pointer chasing: one dependent load after another, first within the second-level cache,
// then far outside it. Memory latency dominates, so a translator should cost nothing.
#include <stdio.h>
#include <stdlib.h>

typedef struct Node { struct Node *next; unsigned long value; } Node;

static unsigned long state = 88172645463325252ul;
static unsigned long random_word(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

// Links `count` nodes into one random cycle (Sattolo's algorithm), walks it, sums the values.
static unsigned long walk(unsigned long count, unsigned long steps)
{
    Node *node = malloc(count * sizeof *node);
    unsigned *order = malloc(count * sizeof *order);
    for (unsigned long i = 0; i < count; i++)
        order[i] = (unsigned)i;
    for (unsigned long i = count - 1; i > 0; i--) {
        unsigned long j = random_word() % i;
        unsigned other = order[i];
        order[i] = order[j];
        order[j] = other;
    }
    for (unsigned long i = 0; i < count; i++) {
        node[order[i]].next = &node[order[(i + 1) % count]];
        node[order[i]].value = order[i] ^ i;
    }
    unsigned long sum = 0;
    const Node *at = node;
    for (unsigned long i = 0; i < steps; i++) {
        sum += at->value;
        at = at->next;
    }
    free(order);
    free(node);
    return sum;
}

int main(void)
{
    printf("small %lu\n", walk(1ul << 14, 60000000));
    printf("large %lu\n", walk(1ul << 20, 4000000));
    return 0;
}
