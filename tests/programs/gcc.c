/* Sieve, sort, matrix, strings and floating point: enough for every pass of an optimiser. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pair {
    uint32_t key;
    double value;
};

static int by_key(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

static unsigned sieve(unsigned n)
{
    unsigned char *composite = calloc(n + 1, 1);
    unsigned count = 0;
    for (unsigned i = 2; i <= n; i++) {
        if (composite[i])
            continue;
        count++;
        for (unsigned j = i + i; j <= n; j += i)
            composite[j] = 1;
    }
    free(composite);
    return count;
}

static double matrix(unsigned n)
{
    double *a = malloc(n * n * sizeof *a), *b = malloc(n * n * sizeof *b);
    double trace = 0;
    for (unsigned i = 0; i < n * n; i++)
        a[i] = i % 13, b[i] = i % 7;
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < n; k++)
            trace += a[i * n + k] * b[k * n + i];
    free(a);
    free(b);
    return trace;
}

static int classify(int c)
{
    switch (c) {
    case 'a': case 'e': case 'i': case 'o': case 'u': return 1;
    case '0' ... '9': return 2;
    case ' ': return 3;
    case 'x': return 4;
    case 'z': return 5;
    default: return 0;
    }
}

int main(int argc, char **argv)
{
    unsigned n = argc > 1 ? atoi(argv[1]) : 100;
    struct pair *pairs = malloc(n * sizeof *pairs);
    uint32_t state = 1;
    for (unsigned i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        pairs[i] = (struct pair){ state >> 8, sin(i) * sqrt(i) };
    }
    qsort(pairs, n, sizeof *pairs, by_key);
    double sum = 0;
    for (unsigned i = 0; i < n; i++)
        sum += pairs[i].value * i;
    const char *text = "an example 1234 of text with zebras and x-rays";
    int classes[6] = { 0 };
    for (const char *p = text; *p; p++)
        classes[classify(*p)]++;
    printf("%u %.9f %.3f %d%d%d\n", sieve(n * 1000), sum, matrix(n), classes[1], classes[2], classes[3]);
    free(pairs);
    return 0;
}
