// Repeated string instructions on short and middle-sized stretches, as hand-written and inlined code has them. The first
// argument says which: forwards, backwards, comparing, searching, filling.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static char from[4096], to[4096];

static uint64_t checksum(void) {
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof to; i++) sum = sum * 31 + (unsigned char)to[i];
    return sum;
}

static void move(size_t n) {
    char *source = from, *target = to;
    __asm__ volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(n) : : "memory");
}

static void move_back(size_t n) {
    char *source = from + n - 1, *target = to + n - 1;
    __asm__ volatile("std\n\trep movsb\n\tcld" : "+S"(source), "+D"(target), "+c"(n) : : "memory", "cc");
}

static size_t compare(size_t n) {
    char *left = from, *right = to;
    __asm__ volatile("repe cmpsb" : "+S"(left), "+D"(right), "+c"(n) : : "memory", "cc");
    return n;
}

static size_t search(size_t n) {
    char *in = from;
    __asm__ volatile("repne scasb" : "+D"(in), "+c"(n) : "a"(0) : "memory", "cc");
    return n;
}

static void fill(size_t n, int with) {
    char *target = to;
    __asm__ volatile("rep stosb" : "+D"(target), "+c"(n) : "a"(with) : "memory");
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "movs";
    static const size_t lengths[] = {7, 16, 33, 64, 100, 250, 700};
    uint64_t sum = 0;
    memset(from, 'x', sizeof from);
    memset(to, 'x', sizeof to);
    // About as long in all kinds: some are done a byte at a time.
    int rounds = strcmp(kind, "movs") == 0 || strcmp(kind, "stos") == 0 ? 12000000 : 1800000;
    for (int i = 0; i < rounds; i++) {
        size_t length = lengths[i % 7];
        // Where comparisons and searches end, mostly.
        from[length / 2] = (char)(i & 1 ? 0 : 'y');
        if (strcmp(kind, "movs") == 0) move(length);
        else if (strcmp(kind, "movs-back") == 0) move_back(length);
        else if (strcmp(kind, "cmps") == 0) sum += compare(length);
        else if (strcmp(kind, "scas") == 0) sum += search(length);
        else if (strcmp(kind, "stos") == 0) fill(length, i);
        else return 1;
        from[length / 2] = 'x';
    }
    printf("%llu %llu\n", (unsigned long long)sum, (unsigned long long)checksum());
}
