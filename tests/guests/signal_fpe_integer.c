// Integer division errors: FPE_INTDIV at the dividing instruction itself, operands untouched.
#include "check.h"

long divide(long dividend, long divisor);
int divide_int(int dividend, int divisor);
extern char divide_at[], divide_after[], divide_int_at[], divide_int_after[];
asm(".pushsection .text\n"
    "divide: mov %rdi, %rax\n cqto\n"
    "divide_at: idiv %rsi\n"
    "divide_after: ret\n"
    "divide_int: mov %edi, %eax\n cltd\n mov %rsi, -8(%rsp)\n"
    "divide_int_at: idivl -8(%rsp)\n"
    "divide_int_after: ret\n"
    ".popsection");

static volatile int faults;

static void handler(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    CHECK_EQ(number, SIGFPE);
    CHECK_EQ(info->si_code, FPE_INTDIV);
    CHECK_EQ((long)info->si_addr, registers[REG_RIP]);
    CHECK_EQ(registers[REG_TRAPNO], 0);
    CHECK_EQ(registers[REG_ERR], 0);
    faults++;
    if (registers[REG_RIP] == (greg_t)divide_at) {
        CHECK_EQ(registers[REG_RAX], registers[REG_RDI]);
        registers[REG_RIP] = (greg_t)divide_after;
    } else {
        CHECK_EQ(registers[REG_RIP], (long)divide_int_at);
        CHECK_EQ((int)registers[REG_RAX], (int)registers[REG_RDI]);
        registers[REG_RIP] = (greg_t)divide_int_after;
    }
    registers[REG_RAX] = 777;
}

int main(void) {
    on_signal(SIGFPE, handler, 0);
    printf("100 / 7 = %ld\n", divide(100, 7));
    printf("100 / 0 = %ld\n", divide(100, 0));
    printf("min / -1 = %ld\n", divide(INT64_MIN, -1));
    printf("int 100 / 7 = %d\n", divide_int(100, 7));
    printf("int 100 / 0 = %d\n", divide_int(100, 0));
    printf("int min / -1 = %d\n", divide_int(INT32_MIN, -1));
    CHECK_EQ(faults, 4);
}
