// A hash table with open addressing, then qsort with a callback: calls into the C library
// that call back into the program, and data-dependent branches.
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 1 << 20, INSERTS = 16000000 };

typedef struct { unsigned long key, count; } Entry;

static Entry table[SLOTS];

static unsigned long mix(unsigned long x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdul;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ul;
    return x ^ x >> 33;
}

static void count_key(unsigned long key)
{
    unsigned long slot = mix(key) & (SLOTS - 1);
    while (table[slot].count != 0 && table[slot].key != key)
        slot = (slot + 1) & (SLOTS - 1);
    table[slot].key = key;
    table[slot].count++;
}

static int by_count(const void *left, const void *right)
{
    const Entry *l = left, *r = right;
    if (l->count != r->count)
        return l->count < r->count ? 1 : -1;
    return (l->key > r->key) - (l->key < r->key);
}

int main(void)
{
    unsigned long state = 1;
    for (int i = 0; i < INSERTS; i++) {
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        unsigned long range = 1ul << (8 + (state >> 60) % 12);
        count_key((state >> 30) % range);
    }
    qsort(table, SLOTS, sizeof table[0], by_count);
    for (int i = 0; i < 20; i++)
        printf("%lu %lu\n", table[i].key, table[i].count);
    unsigned long checksum = 0;
    for (int i = 0; i < SLOTS; i++)
        checksum = checksum * 31 + table[i].key + table[i].count;
    printf("checksum %lu\n", checksum);
    return 0;
}
