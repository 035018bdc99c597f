// The xmm registers and the x87 stack in the context of a fault: exact, and writable.
#include "check.h"

void fault_with(const unsigned char *in, unsigned char *out);
extern char fault_at[], fault_after[];
asm(".pushsection .text\n"
    "fault_with:\n"
    " .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n movdqu \\n*16(%rdi), %xmm\\n\n .endr\n"
    " fldpi\n fld1\n"
    "fault_at: mov 0x10, %eax\n"
    "fault_after:\n"
    " .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n movdqu %xmm\\n, \\n*16(%rsi)\n .endr\n"
    " fstpl 256(%rsi)\n fstpl 264(%rsi)\n ret\n"
    ".popsection");

static unsigned char in[256], out[256 + 16];
static int change;

static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ucontext_t *uc = context;
    struct _libc_fpstate *fp = uc->uc_mcontext.fpregs;
    CHECK(fp != NULL);
    CHECK_EQ(uc->uc_mcontext.gregs[REG_RIP], (long)fault_at);
    CHECK_EQ(memcmp(fp->_xmm, in, 256), 0);
    CHECK_EQ(fp->mxcsr & 0xffc0, 0x1f80);
    // Two values pushed onto an empty stack: the top is register 6.
    CHECK_EQ(fp->swd >> 11 & 7, 6);
    if (change) {
        unsigned char *bytes = (unsigned char *)fp->_xmm;
        for (int i = 0; i < 256; i++) bytes[i] ^= 0xff;
        memcpy(&fp->_st[0], &fp->_st[1], sizeof fp->_st[0]);
    }
    uc->uc_mcontext.gregs[REG_RIP] = (greg_t)fault_after;
    // The handler's own use must not show through.
    asm volatile("pxor %%xmm0, %%xmm0; pxor %%xmm15, %%xmm15; fninit" ::: "xmm0", "xmm15");
}

int main(void) {
    on_signal(SIGSEGV, handler, 0);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 256; i++) in[i] = i * 7 + round;
        change = round & 1;
        fault_with(in, out);
        for (int i = 0; i < 256; i++) CHECK_EQ(out[i], (unsigned char)(change ? ~in[i] : in[i]));
        double top, below;
        memcpy(&top, out + 256, 8);
        memcpy(&below, out + 264, 8);
        if (round < 2) printf("x87: %.10f %.10f\n", top, below);
        CHECK(below > 3.14 && below < 3.15 && (change ? top == below : top == 1));
    }
    puts("xmm0 to xmm15 exact and writable");
}
