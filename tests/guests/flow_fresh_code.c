// Code that runs for the first time while the processor is in an unusual state: direction flag
// set, alignment checks on, x87 stack full, odd rounding, all vector registers and flags in use.
// Whatever prepares the code must not disturb any of it.
// build: -mavx
// needs: avx
#include "check.h"

long run_fresh(void *target, const void *vectors, void *out, unsigned long flags);
// rdi: fresh code, which ends in `jmp *%rbx`.
asm(".pushsection .text\n"
    "run_fresh: push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n push %rdx\n"
    " fninit\n fld1\n fldpi\n fldz\n fldl2e\n fldl2t\n fldlg2\n fldln2\n fld1\n"
    " .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovdqu \\n*32(%rsi), %ymm\\n\n .endr\n"
    " push $0x7fbf\n ldmxcsr (%rsp)\n pop %rax\n"
    " lea 1f(%rip), %rbx\n mov $0x0808080808080808, %r8\n mov $0x0909, %r9d\n mov $0x1212, %r12d\n mov $0x1515, %r15d\n"
    " push %rcx\n popfq\n jmp *%rdi\n"
    "1: pushfq\n pop %rax\n push $0x202\n popfq\n"
    " pop %rdx\n push %rdx\n mov %rax, 512(%rdx)\n stmxcsr 520(%rdx)\n"
    " .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovdqu %ymm\\n, \\n*32(%rdx)\n .endr\n"
    " fstpl 528(%rdx)\n fstpl 536(%rdx)\n fstpl 544(%rdx)\n fnstsw 552(%rdx)\n fninit\n"
    " push $0x1f80\n ldmxcsr (%rsp)\n pop %rax\n vzeroupper\n"
    " mov %r8, 560(%rdx)\n mov %r9, 568(%rdx)\n mov %r12, 576(%rdx)\n mov %r15, 584(%rdx)\n mov %rcx, 592(%rdx)\n"
    " pop %rdx\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n xor %eax, %eax\n ret\n"
    ".popsection");

int main(void) {
    unsigned char *code = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    static unsigned char in[512], out[1024] __attribute__((aligned(64)));
    const unsigned long extra[] = {0, 0x400, 0x40000, 0x40400, 1ul << 21};
    int used = 0, rounds = 0;
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 512; i++) in[i] = (unsigned char)(i * 11 + round + i / 256);
        unsigned long flags = 0x202 | extra[round % 5] | (round & 1) | (round & 2) << 5 | (round & 4) << 5 | (round & 8) << 8;
        // Three short blocks: each transfer meets new code.
        unsigned char *at = code + used;
        unsigned char block[] = {0x4d, 0x8d, 0x40, 0x01, 0xeb, 0x06, 0x0f, 0x0b, 0x0f, 0x0b, 0x0f, 0x0b,
                                 0x4d, 0x8d, 0x49, 0x02, 0xeb, 0x02, 0x0f, 0x0b, 0xff, 0xe3};
        memcpy(at, block, sizeof block); // lea r8, [r8+1]; jmp; lea r9, [r9+2]; jmp; jmp rbx
        used += 64;
        memset(out, 0, sizeof out);
        CHECK_EQ(run_fresh(at, in, out, flags), 0);
        CHECK_EQ(memcmp(in, out, 512), 0);
        unsigned long values[12];
        memcpy(values, out + 512, 96);
        if (values[0] != flags) check_failed("round %d: flags %#lx became %#lx\n", round, flags, values[0]);
        CHECK_EQ((unsigned)values[1], 0x7fbf);
        double top;
        memcpy(&top, &values[2], 8);
        CHECK(top == 1.0);
        CHECK_EQ(values[5] & 0x3841, 3 << 11);
        CHECK_EQ(values[6], 0x0808080808080809);
        CHECK_EQ(values[7], 0x090b);
        CHECK_EQ(values[8], 0x1212);
        CHECK_EQ(values[9], 0x1515);
        CHECK_EQ(values[10], flags);
        rounds++;
    }
    printf("%d rounds of fresh code\n", rounds);
}
