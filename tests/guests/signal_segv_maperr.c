// Reads and writes of unmapped memory: SEGV_MAPERR with the exact address, error code and pc.
// The handler skips the instruction, so the rest of the block must go on as if nothing happened.
#include "check.h"

long load_from(const void *address);
long store_to(void *address);
extern char load_at[], load_after[], store_at[], store_after[];
asm(".pushsection .text\n"
    "load_from:  mov $7, %eax\n"
    "load_at:    mov (%rdi), %rax\n"
    "load_after: add $1, %rax\n"
    "            ret\n"
    "store_to:   mov $9, %eax\n"
    "store_at:   movl $5, (%rdi)\n"
    "store_after: add $1, %rax\n"
    "            ret\n"
    ".popsection");

static siginfo_t last_info;
static greg_t last_registers[NGREG];

static void handler(int number, siginfo_t *info, void *context) {
    ucontext_t *uc = context;
    CHECK_EQ(number, SIGSEGV);
    last_info = *info;
    memcpy(last_registers, uc->uc_mcontext.gregs, sizeof last_registers);
    greg_t *rip = &uc->uc_mcontext.gregs[REG_RIP];
    if (*rip == (greg_t)load_at) *rip = (greg_t)load_after;
    else if (*rip == (greg_t)store_at) *rip = (greg_t)store_after;
    else check_failed("fault at an unexpected pc\n");
}

static void expect(const char *what, char *fault, long error, long result, long wanted) {
    CHECK_EQ(last_info.si_signo, SIGSEGV);
    CHECK_EQ(last_info.si_code, SEGV_MAPERR);
    CHECK_EQ(last_info.si_errno, 0);
    CHECK_EQ((long)last_info.si_addr, (long)fault);
    CHECK_EQ(last_registers[REG_CR2], (long)fault);
    CHECK_EQ(last_registers[REG_TRAPNO], 14);
    CHECK_EQ(last_registers[REG_ERR], error);
    CHECK_EQ(result, wanted);
    printf("%s: code %d, error %ld, result %ld\n", what, last_info.si_code, error, result);
}

int main(void) {
    on_signal(SIGSEGV, handler, 0);
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    CHECK_EQ(munmap(page + 4096, 4096), 0);
    memset(page, 0, 4096);

    long result = load_from(NULL);
    expect("null read", NULL, 4, result, 8);
    result = store_to(NULL);
    expect("null write", NULL, 6, result, 10);
    result = load_from(page + 4096 + 24);
    expect("read past the end", page + 4096 + 24, 4, result, 8);
    result = load_from(page + 4092);
    expect("read across the end", page + 4096, 4, result, 8);
    result = store_to(page + 4094);
    expect("write across the end", page + 4096, 6, result, 10);
    CHECK_EQ(page[4094], 0);
    // The kernel's half: the processor reports it as present so that nothing leaks.
    result = load_from((void *)0xffff800000000000);
    expect("read of the kernel", (char *)0xffff800000000000, 5, result, 8);
    result = load_from(page + 8);
    printf("a good read: %ld\n", result);
}
