// Each arithmetic flag and DF: exact in the context of a fault, DF clear inside the handler,
// restored on return, and changed when the handler changes it.
#include "check.h"

unsigned long fault_with(unsigned long flags);
extern char fault_at[], fault_after[];
asm(".pushsection .text\n"
    "fault_with: push %rdi\n popfq\n"
    "fault_at: mov 8, %rax\n"
    "fault_after: pushfq\n pop %rax\n cld\n ret\n"
    ".popsection");

#define INTERESTING 0xcd5ul

static unsigned long seen, flip;

static unsigned long flags_now(void) {
    unsigned long flags;
    asm volatile("pushfq; pop %0" : "=r"(flags));
    return flags;
}

static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    unsigned long inside = flags_now();
    CHECK_EQ(inside & 0x400, 0);
    CHECK_EQ(inside & 0x100, 0);
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    CHECK_EQ(registers[REG_RIP], (long)fault_at);
    seen = registers[REG_EFL];
    registers[REG_EFL] ^= flip;
    registers[REG_RIP] = (greg_t)fault_after;
}

int main(void) {
    on_signal(SIGSEGV, handler, 0);
    int tried = 0;
    const unsigned long bits[] = {1, 4, 0x10, 0x40, 0x80, 0x400, 0x800};
    for (unsigned subset = 0; subset < 128; subset++) {
        unsigned long flags = 0x202;
        for (int i = 0; i < 7; i++)
            if (subset >> i & 1) flags |= bits[i];
        flip = 0;
        unsigned long after = fault_with(flags);
        CHECK_EQ(seen & INTERESTING, flags & INTERESTING);
        CHECK_EQ(after & INTERESTING, flags & INTERESTING);
        flip = INTERESTING;
        after = fault_with(flags);
        CHECK_EQ(seen & INTERESTING, flags & INTERESTING);
        CHECK_EQ(after & INTERESTING, ~flags & INTERESTING);
        tried++;
    }
    printf("%d combinations of flags\n", tried);
}
