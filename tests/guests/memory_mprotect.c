// mprotect: thousands of cycles, a range of several mappings, a hole, and errors.
#include "check.h"
#include <setjmp.h>
#define PAGE 4096

static sigjmp_buf recover;
static volatile int faults;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    CHECK_EQ(info->si_code, SEGV_ACCERR);
    faults++;
    siglongjmp(recover, 1);
}

int main(void) {
    on_signal(SIGSEGV, handler, 0);
    volatile char *base = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED);
    for (volatile int i = 0; i < 2000; i++) {
        volatile char *page = base + i % 8 * PAGE;
        CHECK_EQ(mprotect((void *)page, PAGE, PROT_READ), 0);
        if (sigsetjmp(recover, 1) == 0) {
            *page = 1;
            check_failed("wrote to a protected page\n");
        }
        CHECK_EQ(mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE), 0);
        *page = (char)i;
    }
    printf("%d faults\n", faults);

    // A handler that opens the page, as a write barrier does: the store is done again.
    CHECK_EQ(mprotect((void *)base, 8 * PAGE, PROT_READ), 0);
    CHECK_EQ(mprotect((void *)(base + 2 * PAGE), PAGE, PROT_NONE), 0);
    CHECK_EQ(mprotect((void *)base, 8 * PAGE, PROT_READ | PROT_WRITE), 0);
    for (int i = 0; i < 8; i++) base[i * PAGE + 1] = 7;
    CHECK_EQ(munmap((void *)(base + 4 * PAGE), PAGE), 0);
    CHECK_FAILS(mprotect((void *)base, 8 * PAGE, PROT_READ), ENOMEM);
    // What lay before the hole was changed all the same.
    if (sigsetjmp(recover, 1) == 0) {
        base[0] = 1;
        check_failed("the part before the hole was not changed\n");
    }
    base[5 * PAGE] = 1;
    CHECK_FAILS(mprotect((void *)(base + 1), PAGE, PROT_READ), EINVAL);
    CHECK_EQ(mprotect((void *)base, 0, PROT_READ), 0);
    CHECK_FAILS(mprotect((void *)base, PAGE, 0x1000), EINVAL);
    puts("errors as documented");
}
