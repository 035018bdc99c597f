// MAP_GROWSDOWN: an access just below the mapping extends it, down to its neighbour's gap.
#include "check.h"
#include <setjmp.h>
#define PAGE 4096

static sigjmp_buf recover;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    siglongjmp(recover, 1);
}

int main(void) {
    static char stack[65536];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    CHECK_EQ(sigaltstack(&alternate, NULL), 0);
    on_signal(SIGSEGV, handler, SA_ONSTACK);
    // A wide free area, with room for the gap the kernel keeps below a growing mapping.
    const long area = 4096 * PAGE;
    char *base = mmap(NULL, area, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED);
    CHECK_EQ(munmap(base, area), 0);
    char *map = mmap(base + area - 2 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
    CHECK(map == base + area - 2 * PAGE);
    volatile int grown = 0;
    for (int i = 1; i <= 64; i++) {
        volatile char *below = map - i * PAGE + 8;
        if (sigsetjmp(recover, 1) == 0) {
            *below = (char)i;
            grown++;
        }
    }
    printf("grown by %d pages\n", grown);
    for (int i = 1; i <= grown; i++) CHECK_EQ(map[-i * PAGE + 8], i);

    // Not beyond the gap of a neighbour below.
    char *low = map - 600 * PAGE;
    CHECK(mmap(low, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == low);
    volatile int stopped = 0;
    for (int i = grown + 1; i < 600 && !stopped; i++) {
        volatile char *below = map - i * PAGE + 8;
        if (sigsetjmp(recover, 1) == 0) *below = 1;
        else stopped = i;
    }
    CHECK(stopped > 0);
    printf("stopped %s the neighbour\n", stopped < 600 ? "before" : "at");
}
