// All general registers and the flags hold the program's values in the context of a fault, and
// hold them again after the handler returns: also those that look dead to a translator.
#include "check.h"

int faulting(void);
extern char fault_at[], fault_after[];
long stack_at_fault;
// Every register is loaded, one faults, then every one is compared. rbx, rbp and the stack
// pointer are kept in memory because no register is left for them.
asm(".pushsection .text\n"
    "faulting: push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
    " mov %rsp, stack_at_fault(%rip)\n"
    " mov $0x0101010101010101, %rax\n mov $0x0202020202020202, %rbx\n"
    " mov $0x0303030303030303, %rcx\n mov $0x0404040404040404, %rdx\n"
    " mov $0x0505050505050505, %rsi\n mov $0x0606060606060606, %rdi\n"
    " mov $0x0707070707070707, %rbp\n mov $0x0808080808080808, %r8\n"
    " mov $0x0909090909090909, %r9\n mov $0x0a0a0a0a0a0a0a0a, %r10\n"
    " mov $0x0b0b0b0b0b0b0b0b, %r11\n mov $0x0c0c0c0c0c0c0c0c, %r12\n"
    " mov $0x0d0d0d0d0d0d0d0d, %r13\n mov $0x0e0e0e0e0e0e0e0e, %r14\n"
    " mov $0x0f0f0f0f0f0f0f0f, %r15\n"
    " cmp %rbx, %rax\n" // sets CF, SF; clears ZF, OF
    "fault_at: movq $1, 0x1000\n"
    "fault_after: \n"
    " jnc 1f\n jz 1f\n jns 1f\n"
    " cmp %rsp, stack_at_fault(%rip)\n jne 1f\n"
    " lea (%rax,%rax), %rdi\n cmp %rbx, %rdi\n jne 1f\n"
    " lea (%rbx,%rax), %rdi\n cmp %rcx, %rdi\n jne 1f\n"
    " lea (%rcx,%rax), %rdi\n cmp %rdx, %rdi\n jne 1f\n"
    " lea (%rdx,%rax), %rdi\n cmp %rsi, %rdi\n jne 1f\n"
    " lea (%rsi,%rax,2), %rdi\n cmp %rbp, %rdi\n jne 1f\n"
    " lea (%rbp,%rax), %rdi\n cmp %r8, %rdi\n jne 1f\n"
    " lea (%r8,%rax), %rdi\n cmp %r9, %rdi\n jne 1f\n"
    " lea (%r9,%rax), %rdi\n cmp %r10, %rdi\n jne 1f\n"
    " lea (%r10,%rax), %rdi\n cmp %r11, %rdi\n jne 1f\n"
    " lea (%r11,%rax), %rdi\n cmp %r12, %rdi\n jne 1f\n"
    " lea (%r12,%rax), %rdi\n cmp %r13, %rdi\n jne 1f\n"
    " lea (%r13,%rax), %rdi\n cmp %r14, %rdi\n jne 1f\n"
    " lea (%r14,%rax), %rdi\n cmp %r15, %rdi\n jne 1f\n"
    " xor %eax, %eax\n jmp 2f\n"
    "1: mov $1, %eax\n"
    "2: mov stack_at_fault(%rip), %rsp\n"
    " pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n"
    ".popsection");

static volatile int faults;

static void handler(int number, siginfo_t *info, void *context) {
    (void)number;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    static const int order[] = {REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI, REG_RDI, REG_RBP, REG_R8,
                                REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    for (int i = 0; i < 15; i++) CHECK_EQ(registers[order[i]], 0x0101010101010101ul * (i + 1));
    CHECK_EQ(registers[REG_RSP], stack_at_fault);
    CHECK_EQ(registers[REG_RIP], (long)fault_at);
    CHECK_EQ((long)info->si_addr, 0x1000);
    CHECK_EQ(registers[REG_EFL] & 0x8d5, 0x85 | (registers[REG_EFL] & 0x14));
    CHECK_EQ(registers[REG_CSGSFS] & 0xffff, 0x33);
    registers[REG_RIP] = (greg_t)fault_after;
    faults++;
}

int main(void) {
    on_signal(SIGSEGV, handler, 0);
    for (int i = 0; i < 100; i++) CHECK_EQ(faulting(), 0);
    CHECK_EQ(faults, 100);
    puts("all registers exact, 100 times");
}
