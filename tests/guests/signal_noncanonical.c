// Data at non-canonical addresses: a protection fault without an address, at the instruction. A jump
// to one is not tested: it faults at its target instead of at the branch (docs/limits.md).
#include "check.h"

long load_from(long address);
long push_with(long stack);
extern char load_at[], load_after[], push_at[], push_after[];
asm(".pushsection .text\n"
    "load_from: mov $1, %eax\n"
    "load_at: mov (%rdi), %rax\n"
    "load_after: ret\n"
    "push_with: mov $2, %eax\n mov %rsp, %rdx\n mov %rdi, %rsp\n"
    "push_at: push %rax\n"
    "push_after: ret\n"
    ".popsection");

static const char *where;
static volatile int code;
static void *address;
static long trap, error;

static void handler(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    greg_t rip = registers[REG_RIP];
    code = info->si_code, address = info->si_addr;
    trap = registers[REG_TRAPNO], error = registers[REG_ERR];
    if (rip == (greg_t)load_at) where = "the load", registers[REG_RIP] = (greg_t)load_after;
    else if (rip == (greg_t)push_at) {
        where = number == SIGBUS ? "the push (SIGBUS)" : "the push";
        registers[REG_RSP] = registers[REG_RDX];
        registers[REG_RIP] = (greg_t)push_after;
    } else check_failed("fault at an unexpected pc\n");
}

int main(void) {
    static char stack[65536] __attribute__((aligned(16)));
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    CHECK_EQ(sigaltstack(&alternate, NULL), 0);
    on_signal(SIGSEGV, handler, SA_ONSTACK);
    on_signal(SIGBUS, handler, SA_ONSTACK);
    long bad[] = {0x800000000000, 0x1234567890abcdef, (long)0xfff0000000000000};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(load_from(bad[i]), 1);
        printf("load: at %s, code %d, address %p, trap %ld, error %ld\n", where, code, address, trap, error);
        CHECK_EQ(push_with(bad[i]), 2);
        printf("push: at %s, code %d, address %p, trap %ld, error %ld\n", where, code, address, trap, error);
    }
}
