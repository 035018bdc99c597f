// Coroutines: makecontext and swapcontext, and a hand-made switch that only changes the stack
// pointer and returns.
#include "check.h"

#define TASKS 10
static ucontext_t home, contexts[TASKS];
static int turns[TASKS], order[2000], ordered;

static void task(int self, int rounds) {
    double weight = self * 1.5;
    for (int i = 0; i < rounds; i++) {
        turns[self]++;
        order[ordered++] = self;
        weight += 0.25;
        swapcontext(&contexts[self], &contexts[(self + 1) % TASKS]);
    }
    CHECK(weight == self * 1.5 + rounds * 0.25);
    swapcontext(&contexts[self], self == TASKS - 1 ? &home : &contexts[self + 1]);
}

// The switch that runtimes write themselves: save callee-saved registers, change rsp, return.
void switch_stack(void **save, void *load);
asm(".pushsection .text\n"
    "switch_stack: push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
    " mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
    " pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n"
    ".popsection");

static void *main_stack, *fiber_stack[4];
static volatile long fiber_sum;
static volatile int current;

static void fiber(void) {
    for (;;) {
        fiber_sum += current + 1;
        int self = current;
        switch_stack(&fiber_stack[self], main_stack);
    }
}

int main(void) {
    for (int i = 0; i < TASKS; i++) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_size = 65536;
        contexts[i].uc_stack.ss_sp = malloc(65536);
        contexts[i].uc_link = &home;
        makecontext(&contexts[i], (void (*)(void))task, 2, i, 100);
    }
    swapcontext(&home, &contexts[0]);
    for (int i = 0; i < TASKS; i++) CHECK_EQ(turns[i], 100);
    for (int i = 0; i < ordered; i++) CHECK_EQ(order[i], i % TASKS);
    printf("%d turns\n", ordered);

    for (int i = 0; i < 4; i++) {
        void **top = (void **)((char *)malloc(65536) + 65536 - 64);
        *--top = NULL; // keeps the alignment a call would leave
        *--top = (void *)fiber;
        for (int j = 0; j < 6; j++) *--top = NULL;
        fiber_stack[i] = top;
    }
    for (int i = 0; i < 40000; i++) {
        current = i % 4;
        switch_stack(&main_stack, fiber_stack[current]);
    }
    printf("fibers: %ld\n", fiber_sum);
}
