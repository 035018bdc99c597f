// A signal handler sees the flags as they are where code runs on from one page into the next: behind the last instruction
// of a page and in front of one that crosses the border, each followed by an instruction that overwrites the flags.
#include "check.h"
#include <sys/time.h>

#define ARITHMETIC 0x8d5
#define ZERO_AND_PARITY 0x44
enum { SIGNALS = 400 };

static volatile int flag, count;
extern char crossing_start[], crossing_end[];

static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t pc = registers[REG_RIP];
    if (pc >= (uintptr_t)crossing_start && pc < (uintptr_t)crossing_end) {
        CHECK_EQ(registers[REG_EFL] & ARITHMETIC, ZERO_AND_PARITY);
        if (++count == SIGNALS) flag = 1;
    }
}

// Every instruction leaves the flags that it finds, or sets the same.
void crossing(volatile int *flag);
asm(".pushsection .text\n"
    ".balign 4096\n"
    "crossing:\n"
    "xor %eax, %eax\n"
    "jmp crossing_start\n"
    ".skip 4096 - 12 - (. - crossing), 0x90\n"
    "crossing_start:\n"
    "mov (%rdi), %eax\n" // loads, whose checks destroy flags that are dead
    "mov (%rdi), %eax\n"
    "mov (%rdi), %edx\n"
    "mov (%rdi), %edx\n"
    "mov (%rdi), %eax\n"
    "mov (%rdi), %edx\n" // ends with the page
    "test %eax, %eax\n"
    "je 1f\n"
    "ret\n"
    ".skip 8192 - 5 - (. - crossing), 0x90\n"
    "1: mov (%rdi), %eax\n"
    "mov (%rdi), %eax\n"
    "mov 0(,%rdi), %edx\n" // crosses
    "test %eax, %eax\n"
    "je crossing_start\n"
    "crossing_end:\n"
    "ret\n"
    ".popsection\n");

// The same without a handler that looks: what it returns to must be what it interrupted.
static void empty(int number) { (void)number; }

int main(void) {
    on_signal(SIGALRM, handler, 0);
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
    crossing(&flag);
    CHECK(count >= SIGNALS);
    CHECK(signal(SIGALRM, empty) != SIG_ERR);
    for (int i = 0; i < 20000000; i++) {
        flag = 1;
        crossing(&flag);
    }
}
