// Invalid instructions: SIGILL at the instruction; the handler steps over each kind.
#include "check.h"

extern char start[], finish[];
int invalid(void);
// Each invalid instruction is padded to 8 bytes, so that the handler knows where to go on.
asm(".pushsection .text\n"
    ".p2align 3\n"
    "invalid: xor %eax, %eax\n nop\n nop\n nop\n nop\n nop\n nop\n"
    "start: ud2\n .p2align 3,0x90\n inc %eax\n .p2align 3,0x90\n"
    " .byte 0x06\n .p2align 3,0x90\n"                // push es
    " .byte 0x0f,0x04\n .p2align 3,0x90\n"            // undefined
    " .byte 0xf0,0x90\n .p2align 3,0x90\n"            // lock nop
    " .byte 0xf0,0x01,0xc0\n .p2align 3,0x90\n"       // lock add eax, eax
    " .byte 0xc7,0xff,0,0,0,0\n .p2align 3,0x90\n"    // group 11 with a bad reg field
    " .byte 0x0f,0xff,0xc0\n .p2align 3,0x90\n"       // ud0
    " .byte 0x0f,0xb9,0xc0\n .p2align 3,0x90\n"       // ud1
    " .byte 0x8d,0xc0\n .p2align 3,0x90\n"            // lea with a register operand
    "inc %eax\n"
    "finish: ret\n"
    ".popsection");

static volatile int seen;

static void handler(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    CHECK_EQ(number, SIGILL);
    CHECK_EQ(info->si_code, ILL_ILLOPN);
    CHECK_EQ((long)info->si_addr, registers[REG_RIP]);
    CHECK_EQ(registers[REG_TRAPNO], 6);
    CHECK(registers[REG_RIP] >= (greg_t)start && registers[REG_RIP] < (greg_t)finish);
    CHECK_EQ(registers[REG_RIP] & 7, 0);
    registers[REG_RIP] += 8;
    seen++;
}

int main(void) {
    on_signal(SIGILL, handler, 0);
    int result = invalid();
    printf("%d invalid instructions, %d valid ones\n", seen, result);
    CHECK_EQ(seen, 9);
    CHECK_EQ(result, 2);
}
