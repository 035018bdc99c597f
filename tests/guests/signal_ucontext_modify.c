// A handler that replaces every register, the stack pointer, the flags and the pc in its
// context: the program resumes with exactly these.
#include "check.h"

void leave(void);
extern char resumed[], fault_at[];
unsigned long seen[17], saved_stack;
static unsigned long own_stack[4096];
asm(".pushsection .text\n"
    "leave: push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
    " mov %rsp, saved_stack(%rip)\n"
    "fault_at: ud2\n"
    "resumed:\n"
    " mov %rax, seen(%rip)\n mov %rbx, seen+8(%rip)\n mov %rcx, seen+16(%rip)\n"
    " mov %rdx, seen+24(%rip)\n mov %rsi, seen+32(%rip)\n mov %rdi, seen+40(%rip)\n"
    " mov %rbp, seen+48(%rip)\n mov %r8, seen+56(%rip)\n mov %r9, seen+64(%rip)\n"
    " mov %r10, seen+72(%rip)\n mov %r11, seen+80(%rip)\n mov %r12, seen+88(%rip)\n"
    " mov %r13, seen+96(%rip)\n mov %r14, seen+104(%rip)\n mov %r15, seen+112(%rip)\n"
    " mov %rsp, seen+120(%rip)\n"
    " pushfq\n pop %rax\n mov %rax, seen+128(%rip)\n"
    " mov saved_stack(%rip), %rsp\n"
    " pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n"
    ".popsection");

static const int order[] = {REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI, REG_RDI, REG_RBP, REG_R8,
                            REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
static int round_number;

static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    CHECK_EQ(registers[REG_RIP], (long)fault_at);
    for (int i = 0; i < 15; i++) registers[order[i]] = 0x1111111111111111ul * (i + 1) + round_number;
    registers[REG_RSP] = (greg_t)&own_stack[4000];
    registers[REG_EFL] = (registers[REG_EFL] & ~0x8d5) | (round_number & 1 ? 0x801 : 0xc4);
    registers[REG_RIP] = (greg_t)resumed;
}

int main(void) {
    on_signal(SIGILL, handler, 0);
    for (round_number = 0; round_number < 50; round_number++) {
        leave();
        for (int i = 0; i < 15; i++) CHECK_EQ(seen[i], 0x1111111111111111ul * (i + 1) + round_number);
        CHECK_EQ(seen[15], (long)&own_stack[4000]);
        CHECK_EQ(seen[16] & 0x8d5, round_number & 1 ? 0x801 : 0xc4);
    }
    puts("every register came from the handler, 50 times");
}
