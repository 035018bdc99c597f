// AddressSanitizer in a program without errors: its shadow memory, its allocator, its interceptors,
// redzones on the stack and around globals, threads, and the search for leaks at the end.
// build: -pthread -Wno-use-after-free
// sanitizer: address
#include "check.h"
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <setjmp.h>

#define BLOCKS 2000
static char table[100], other[100];
static jmp_buf back;

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static long use_heap(unsigned seed) {
    static _Thread_local unsigned char *blocks[BLOCKS];
    long sum = 0;
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            size_t size = 1 + (seed = seed * 1103515245 + 12345) % (i % 100 ? 300 : 200000);
            blocks[i] = i % 3 ? malloc(size) : realloc(calloc(1, size / 2 + 1), size);
            memset(blocks[i], i, size);
            // Surely so only in the eight bytes of which the block's end is a part.
            if (size % 8) CHECK(__asan_address_is_poisoned(blocks[i] + size));
            sum += blocks[i][size - 1];
        }
        for (int i = 0; i < BLOCKS; i++) {
            free(blocks[i]);
            CHECK(__asan_address_is_poisoned(blocks[i]));
        }
    }
    return sum;
}

static void *thread(void *argument) { return (void *)use_heap((long)argument); }

__attribute__((noinline)) static void leave(volatile char *from) {
    volatile char frame[300];
    for (int i = 0; i < 300; i++) frame[i] = from[i % 100];
    CHECK(__asan_address_is_poisoned((char *)frame + 300));
    longjmp(back, frame[7]);
}

int main(void) {
    printf("heap %ld\n", use_heap(1));
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) CHECK_EQ(pthread_create(&threads[i], NULL, thread, (void *)(i + 2)), 0);
    for (int i = 0; i < 4; i++) {
        void *sum;
        CHECK_EQ(pthread_join(threads[i], &sum), 0);
        printf("thread %ld\n", (long)sum);
    }

    CHECK(__asan_address_is_poisoned(table + 100) && !__asan_address_is_poisoned(other + 99));
    int numbers[200];
    for (int i = 0; i < 200; i++) numbers[i] = i * 7919 % 200;
    qsort(numbers, 200, sizeof *numbers, compare);
    for (int i = 0; i < 200; i++) CHECK_EQ(numbers[i], i);
    snprintf(table, sizeof table, "%s-%d", "text", numbers[42]);
    CHECK_EQ(strlen(strcpy(other, table)), 7);

    // Frames that longjmp leaves are unpoisoned.
    memset(table, 9, sizeof table);
    for (volatile int i = 0; i < 100; i++) {
        int value = setjmp(back);
        if (value == 0) leave(table);
        CHECK_EQ(value, 9);
    }

    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(use_heap(1) % 100);
    printf("child %d\n", exit_code_of(child));
}
