// Thread stacks: sizes that are asked for, a stack of one's own, and the guard page, whose fault
// is handled on that thread's alternate stack.
// build: -pthread
#include "check.h"
#include <pthread.h>
#include <setjmp.h>

static __thread sigjmp_buf recover;
static __thread char *low, *high;
static volatile int no_limit = -1;

static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    CHECK_EQ(info->si_code, SEGV_ACCERR);
    CHECK((char *)info->si_addr < low && (char *)info->si_addr >= low - 16384);
    siglongjmp(recover, 1);
}

__attribute__((noinline)) static int recurse(int depth) {
    volatile char space[2000];
    space[0] = space[1999] = depth;
    if (depth == no_limit) return 0;
    return recurse(depth + 1) + space[0] + space[1999];
}

static void find_bounds(void) {
    pthread_attr_t attributes;
    CHECK_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
    void *address;
    size_t size;
    CHECK_EQ(pthread_attr_getstack(&attributes, &address, &size), 0);
    low = address, high = low + size;
    char here;
    CHECK(&here > low && &here < high);
}

static void *overflow(void *unused) {
    (void)unused;
    find_bounds();
    char space[65536];
    stack_t alternate = {.ss_sp = malloc(65536), .ss_size = sizeof space};
    CHECK_EQ(sigaltstack(&alternate, NULL), 0);
    for (volatile int i = 0; i < 2; i++)
        if (sigsetjmp(recover, 1) == 0) recurse(0);
    return (void *)(high - low);
}

static void *on_own_stack(void *unused) {
    (void)unused;
    find_bounds();
    return low;
}

int main(void) {
    on_signal(SIGSEGV, handler, SA_ONSTACK);
    size_t sizes[] = {262144, 1 << 20, 4 << 20};
    for (int i = 0; i < 3; i++) {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        CHECK_EQ(pthread_attr_setstacksize(&attributes, sizes[i]), 0);
        CHECK_EQ(pthread_attr_setguardsize(&attributes, 16384), 0);
        pthread_t thread;
        void *result;
        CHECK_EQ(pthread_create(&thread, &attributes, overflow, NULL), 0);
        CHECK_EQ(pthread_join(thread, &result), 0);
        printf("stack of %zu overflowed and recovered\n", sizes[i]);
    }
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    void *stack = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    CHECK_EQ(pthread_attr_setstack(&attributes, stack, 1 << 20), 0);
    pthread_t thread;
    void *result;
    CHECK_EQ(pthread_create(&thread, &attributes, on_own_stack, NULL), 0);
    CHECK_EQ(pthread_join(thread, &result), 0);
    CHECK(result == stack);
    CHECK_EQ(munmap(stack, 1 << 20), 0);
    puts("a stack of our own");
}
