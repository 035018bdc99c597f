// All general registers and flags held in a loop without calls or memory writes while
// asynchronous signals arrive; the context shows a pc inside the loop and the right registers.
#include "check.h"
#include <sys/time.h>

int hold(volatile int *count, int until);
extern char loop_start[], loop_end[];
asm(".pushsection .text\n"
    "hold: push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
    " .irp r,rax,rbx,rcx,rdx,rbp,r8,r9,r10,r11,r12,r13,r14,r15\n mov $0x5a5a5a5a5a5a5a, %\\r\n .endr\n"
    "loop_start: cmp %esi, (%rdi)\n jl loop_start\n"
    "loop_end: sub $0x5a, %al\n jnz 1f\n"
    " mov $0x5a5a5a5a5a5a5a, %rax\n"
    " .irp r,rbx,rcx,rdx,rbp,r8,r9,r10,r11,r12,r13,r14,r15\n cmp %rax, %\\r\n jne 1f\n .endr\n"
    " xor %eax, %eax\n jmp 2f\n"
    "1: mov $1, %eax\n"
    "2: pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n"
    ".popsection");

static volatile int signals;
static volatile int inside;

static void handler(int number, siginfo_t *info, void *context) {
    (void)number;
    CHECK_EQ(info->si_code, SI_KERNEL);
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    greg_t rip = registers[REG_RIP];
    if (rip >= (greg_t)loop_start && rip < (greg_t)loop_end) {
        inside++;
        static const int order[] = {REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RBP, REG_R8, REG_R9, REG_R10,
                                    REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
        for (int i = 0; i < 13; i++) CHECK_EQ(registers[order[i]], 0x5a5a5a5a5a5a5a);
        CHECK_EQ(registers[REG_RDI], (long)&signals);
    }
    signals++;
}

int main(void) {
    on_signal(SIGALRM, handler, 0);
    struct itimerval timer = {{0, 2000}, {0, 2000}};
    CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
    for (int round = 0; round < 40; round++) CHECK_EQ(hold(&signals, signals + 2), 0);
    // Nearly every signal finds the loop; half leaves room for a busy machine.
    CHECK(inside > 40);
    puts("registers held through 80 signals");
}
