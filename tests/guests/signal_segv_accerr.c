// Accesses that a mapping forbids: SEGV_ACCERR, with the error code of write, read and fetch.
#include "check.h"
#include <setjmp.h>

static sigjmp_buf recover;
static siginfo_t info;
static greg_t registers[NGREG];

static void handler(int number, siginfo_t *got, void *context) {
    (void)number;
    info = *got;
    memcpy(registers, ((ucontext_t *)context)->uc_mcontext.gregs, sizeof registers);
    siglongjmp(recover, 1);
}

static void expect(const char *what, void *address, long error) {
    CHECK_EQ(info.si_code, SEGV_ACCERR);
    CHECK_EQ((long)info.si_addr, (long)address);
    CHECK_EQ(registers[REG_CR2], (long)address);
    CHECK_EQ(registers[REG_TRAPNO], 14);
    CHECK_EQ(registers[REG_ERR], error);
    printf("%s: error %#lx\n", what, error);
}

int main(void) {
    on_signal(SIGSEGV, handler, 0);
    volatile char *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    page[0] = (char)0xc3;

    if (!sigsetjmp(recover, 1)) {
        ((void (*)(void))(page + 64))();
        check_failed("ran data\n");
    }
    expect("fetch from rw-", (void *)(page + 64), 0x15);
    CHECK_EQ(registers[REG_RIP], (long)(page + 64));

    CHECK_EQ(mprotect((void *)page, 4096, PROT_READ), 0);
    CHECK_EQ(page[0], (char)0xc3);
    if (!sigsetjmp(recover, 1)) {
        page[100] = 1;
        check_failed("wrote to a read-only page\n");
    }
    expect("write to r--", (void *)(page + 100), 7);

    CHECK_EQ(mprotect((void *)page, 4096, PROT_NONE), 0);
    if (!sigsetjmp(recover, 1)) {
        CHECK_EQ(page[5], 0);
        check_failed("read a forbidden page\n");
    }
    expect("read of ---", (void *)(page + 5), 4);

    CHECK_EQ(mprotect((void *)page, 4096, PROT_READ | PROT_EXEC), 0);
    ((void (*)(void))page)();
    if (!sigsetjmp(recover, 1)) {
        page[0] = 1;
        check_failed("wrote to code\n");
    }
    expect("write to r-x", (void *)page, 7);
    ((void (*)(void))page)();
    puts("the code still runs");
}
