// setjmp and longjmp: values, nesting, across many frames, out of callbacks, and repeatedly.
// build: -O2
#include "check.h"
#include <setjmp.h>

static jmp_buf outer, inner;
static volatile int no_limit = -1;

__attribute__((noinline)) static int deep(int depth, jmp_buf *target) {
    volatile char space[64];
    space[0] = (char)depth;
    if (depth == 0) longjmp(*target, 7);
    if (depth == no_limit) return 0;
    return deep(depth - 1, target) + space[0];
}

static int compare(const void *a, const void *b) {
    if (*(const int *)a == 13 || *(const int *)b == 13) longjmp(outer, 13);
    return *(const int *)a - *(const int *)b;
}

int main(void) {
    volatile int count = 0;
    switch (setjmp(outer)) {
    case 0: deep(500, &outer);
    case 7: puts("from 500 frames down"); break;
    default: return 1;
    }
    for (volatile int i = 0; i < 5000; i++) {
        int got = setjmp(inner);
        if (got == 0) deep(i % 20, &inner);
        count += got;
    }
    printf("count %d\n", count);
    if (setjmp(outer) == 0) {
        if (setjmp(inner) == 0) deep(3, &inner);
        else longjmp(outer, 0); // becomes 1
    } else puts("nested");
    int numbers[] = {5, 3, 13, 1, 9};
    int got = setjmp(outer);
    if (got == 0) qsort(numbers, 5, sizeof(int), compare);
    printf("out of a callback: %d\n", got);
}
