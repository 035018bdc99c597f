// Recursion: Ackermann, mutual recursion, tail calls in a long chain, Fibonacci, and a deep one
// that unwinds all returns in order.
// build: -O2 -fno-optimize-sibling-calls
#include "check.h"

__attribute__((noinline)) static int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    return ackermann(m - 1, n == 0 ? 1 : ackermann(m, n - 1));
}
static int is_odd(int n);
__attribute__((noinline)) static int is_even(int n) { return n == 0 ? 1 : is_odd(n - 1); }
__attribute__((noinline)) static int is_odd(int n) { return n == 0 ? 0 : is_even(n - 1); }
__attribute__((noinline)) static long fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__attribute__((noinline)) static long sum_to(long n) { return n == 0 ? 0 : n + sum_to(n - 1); }

// Tail calls that never return to their caller but jump on, a million times.
long bounce(long count);
asm(".pushsection .text\n"
    "bounce: xor %eax, %eax\n jmp ping\n"
    "ping: add $1, %rax\n dec %rdi\n jnz pong\n ret\n"
    "pong: add $2, %rax\n dec %rdi\n jnz ping\n ret\n"
    ".popsection");

int main(void) {
    printf("ackermann(2, 300) = %d\n", ackermann(2, 300));
    printf("ackermann(3, 6) = %d\n", ackermann(3, 6));
    printf("even(50001) = %d\n", is_even(50001));
    printf("fibonacci(25) = %ld\n", fibonacci(25));
    printf("sum_to(100000) = %ld\n", sum_to(100000));
    printf("bounce = %ld\n", bounce(1000000));
}
