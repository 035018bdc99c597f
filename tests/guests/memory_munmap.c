// munmap: the middle, the ends, several mappings at once, holes, and what a later access meets.
#include "check.h"
#include <setjmp.h>
#define PAGE 4096

static sigjmp_buf recover;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    CHECK_EQ(info->si_code, SEGV_MAPERR);
    siglongjmp(recover, 1);
}
static int mapped(volatile char *address) {
    if (sigsetjmp(recover, 1)) return 0;
    *address = 5;
    return 1;
}
static void show(char *base, int pages) {
    for (int i = 0; i < pages; i++) putchar(mapped(base + i * PAGE) ? '#' : '.');
    puts("");
}

int main(void) {
    on_signal(SIGSEGV, handler, 0);
    char *base = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED);
    show(base, 16);
    CHECK_EQ(munmap(base + 5 * PAGE, 2 * PAGE), 0);
    show(base, 16);
    CHECK_EQ(munmap(base, PAGE), 0);
    CHECK_EQ(munmap(base + 15 * PAGE, PAGE), 0);
    show(base, 16);
    CHECK_EQ(munmap(base + 3 * PAGE, 100), 0);
    show(base, 16);
    CHECK_EQ(mprotect(base + 9 * PAGE, PAGE, PROT_READ), 0);
    CHECK_EQ(munmap(base + 4 * PAGE, 7 * PAGE), 0);
    show(base, 16);
    CHECK_EQ(munmap(base, 16 * PAGE), 0);
    show(base, 16);
    CHECK_EQ(munmap(base, 16 * PAGE), 0);
    CHECK_FAILS(munmap(base + 1, PAGE), EINVAL);
    CHECK_FAILS(munmap(base, 0), EINVAL);
    // Where nothing ever is.
    CHECK_EQ(munmap(NULL, PAGE), 0);
    CHECK_EQ(munmap(NULL, 32 * PAGE), 0);
    CHECK_EQ(munmap((char *)0x600000000000 - PAGE, 2 * PAGE), 0);
    puts("errors as documented");
}
