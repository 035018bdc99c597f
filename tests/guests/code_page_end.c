// Code that runs up to an unmapped page: it faults only when it really gets there, with the pc
// at the page's start or at the instruction that is cut off.
#include "check.h"
#include <setjmp.h>

static sigjmp_buf recover;
static long fault_pc, fault_address, fault_error;
static void handler(int number, siginfo_t *info, void *context) {
    CHECK_EQ(number, SIGSEGV);
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    fault_pc = registers[REG_RIP];
    fault_address = (long)info->si_addr;
    fault_error = registers[REG_ERR];
    siglongjmp(recover, 1);
}

int main(void) {
    on_signal(SIGSEGV, handler, 0);
    unsigned char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    unsigned char *end = page + 4096;
    CHECK_EQ(mprotect(end, 4096, PROT_NONE), 0);

    // test edi, edi; jnz +1; ret; nop… up to the end.
    memset(page + 4000, 0x90, 96);
    memcpy(page + 4000, "\x85\xff\x75\x01\xc3", 5);
    void (*function)(int) = (void (*)(int))(page + 4000);
    function(0);
    puts("returned before the end");
    if (sigsetjmp(recover, 1) == 0) {
        function(1);
        check_failed("ran off the page\n");
    }
    CHECK_EQ(fault_pc, (long)end);
    CHECK_EQ(fault_address, (long)end);
    printf("fell off the page, error %#lx\n", fault_error);

    // An instruction whose last bytes are missing: the pc stays at it, the address is the page.
    memcpy(end - 3, "\xb8\x01\x02", 3);
    function(0);
    if (sigsetjmp(recover, 1) == 0) {
        function(1);
        check_failed("ran half an instruction\n");
    }
    CHECK_EQ(fault_pc, (long)end - 3);
    CHECK_EQ(fault_address, (long)end);
    puts("half an instruction");
    // The page comes, and everything runs.
    CHECK_EQ(mprotect(end, 4096, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
    memcpy(end, "\x00\x00\xc3", 3);
    function(1);
    CHECK_EQ(((int (*)(int))function)(1), 0x201);
    // And goes again.
    CHECK_EQ(mprotect(end, 4096, PROT_READ), 0);
    if (sigsetjmp(recover, 1) == 0) {
        function(1);
        check_failed("ran code that is not executable\n");
    }
    CHECK_EQ(fault_address, (long)end);
    puts("came and went");
}
