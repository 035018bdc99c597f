// Alignment: SSE operands that must be aligned fault with a protection error; with the AC flag
// set, ordinary ones raise SIGBUS with BUS_ADRALN.
#include "check.h"

static volatile int number_seen, code_seen;
static volatile long address_seen;
static char buffer[256] __attribute__((aligned(64)));
long aligned_load(void *address);
long checked_load(void *address);
extern char aligned_at[], aligned_after[], checked_at[], checked_after[];
asm(".pushsection .text\n"
    "aligned_load: xor %eax, %eax\naligned_at: movaps (%rdi), %xmm0\n mov $1, %eax\naligned_after: ret\n"
    "checked_load: pushfq\n orq $0x40000, (%rsp)\n popfq\n xor %eax, %eax\n"
    "checked_at: mov (%rdi), %edx\n mov $1, %eax\n"
    "checked_after: pushfq\n andq $~0x40000, (%rsp)\n popfq\n ret\n"
    ".popsection");

static void handler(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    // Library code in a handler may be unaligned: the flag must be off before anything else.
    asm volatile("pushfq; andq $~0x40000, (%%rsp); popfq" ::: "cc", "memory");
    number_seen = number, code_seen = info->si_code, address_seen = (char *)info->si_addr - buffer;
    if (registers[REG_RIP] == (greg_t)aligned_at) registers[REG_RIP] = (greg_t)aligned_after;
    else if (registers[REG_RIP] == (greg_t)checked_at) registers[REG_RIP] = (greg_t)checked_after;
    else check_failed("fault at an unexpected pc\n");
    address_seen = info->si_addr ? address_seen : -1;
}

int main(void) {
    on_signal(SIGSEGV, handler, 0);
    on_signal(SIGBUS, handler, 0);
    CHECK_EQ(aligned_load(buffer), 1);
    CHECK_EQ(aligned_load(buffer + 4), 0);
    printf("movaps: signal %d, code %d, address %ld\n", number_seen, code_seen, address_seen);
    CHECK_EQ(checked_load(buffer + 4), 1);
    CHECK_EQ(checked_load(buffer + 6), 0);
    printf("AC flag: signal %d, code %d\n", number_seen, code_seen);
    CHECK_EQ(number_seen, SIGBUS);
    CHECK_EQ(code_seen, BUS_ADRALN);
}
