// Jumps to where there is no code: the fault's pc is the target, the return address is on the
// stack, and the handler can emulate the missing function by returning to the caller.
#include "check.h"

typedef long function(long);
static char *expected;
static volatile int faults;

static void handler(int number, siginfo_t *info, void *context) {
    (void)number;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    CHECK_EQ(registers[REG_RIP], (long)expected);
    CHECK_EQ((long)info->si_addr, (long)expected);
    CHECK_EQ(registers[REG_TRAPNO], 14);
    CHECK_EQ(registers[REG_ERR], 0x14);
    CHECK_EQ(info->si_code, SEGV_MAPERR);
    CHECK_EQ(registers[REG_RDI], 20 + faults);
    registers[REG_RIP] = *(long *)registers[REG_RSP];
    registers[REG_RSP] += 8;
    registers[REG_RAX] = registers[REG_RDI] * 2;
    faults++;
}

int main(void) {
    on_signal(SIGSEGV, handler, 0);
    char *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    CHECK_EQ(munmap(page, 4096), 0);
    char *targets[] = {NULL, page, page + 123, (char *)16, NULL};
    for (int i = 0; i < 5; i++) {
        expected = targets[i];
        function *volatile target = (function *)targets[i];
        printf("call %d returned %ld\n", i, target(20 + i));
    }
    CHECK_EQ(faults, 5);
}
