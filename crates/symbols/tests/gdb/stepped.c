#define _GNU_SOURCE
#include <alloca.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

volatile int sink;
char other_stack[16384] __attribute__((aligned(64)));

static inline __attribute__((always_inline)) int innermost(int x) {
    sink += x;
    return x * 3;
}

static inline __attribute__((always_inline)) int inner(int x) {
    int y = innermost(x + 1);
    sink ^= y;
    return y + innermost(y);
}

__attribute__((noinline)) int leaf(int x) {
    return x * 7 + 1;
}

__attribute__((noinline)) int recursive(int depth) {
    if (depth == 0)
        return inner(sink);
    int below = recursive(depth - 1);
    return below + leaf(depth);
}

__attribute__((noinline)) int variadic(int count, ...) {
    va_list list;
    va_start(list, count);
    int sum = 0;
    while (count-- > 0)
        sum += va_arg(list, int);
    va_end(list);
    return sum;
}

__attribute__((noinline)) int with_room(int size) {
    char *room = alloca(size);
    memset(room, size, size);
    sink += room[size / 2];
    return inner(room[0]) + leaf(size);
}

__attribute__((noinline)) int many(int a, int b, int c, int d, int e, int f, int g, int h) {
    int x = leaf(a), y = leaf(b), z = leaf(c);
    int u = leaf(d + e), v = leaf(f + g);
    return x + y * z + u * v + h + leaf(x + y);
}

__attribute__((noinline)) int passes_on(int x) {
    sink = x;
    return leaf(x + 1);
}

static int compare(const void *a, const void *b) {
    return inner(*(const int *)a) - inner(*(const int *)b);
}

void handler(int number) {
    sink += leaf(number) + inner(number);
}

#ifdef WITHOUT_FRAME
// It has neither tables nor a frame: the frame pointer is its caller's.
asm(".type without_frame, @function\n"
    "without_frame: lea 1(%rdi), %eax\nnop\nadd $2, %eax\nret\n"
    ".size without_frame, . - without_frame");
int without_frame(int x);
#else
#define without_frame leaf
#endif

int main(int argc, char **argv) {
    int numbers[4] = {4, 2, 3, argc};
    sink += recursive(3);
    sink += variadic(3, 1, 2, argc);
    sink += with_room(argc * 64);
    sink += many(1, 2, 3, 4, argc, 6, 7, 8);
    sink += passes_on(argc);
    sink += without_frame(argc);
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    sigaltstack(&stack, NULL);
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR2, &action, NULL);
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR2);
    qsort(numbers, 4, sizeof numbers[0], compare);
    return sink + numbers[0];
}
