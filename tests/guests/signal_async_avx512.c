// The 512-bit registers and the mask registers held across asynchronous signals whose handler
// overwrites all of them.
// build: -mavx512f -mavx512bw
// needs: avx512f avx512bw
#include "check.h"
#include <sys/time.h>

void hold(const unsigned char *in, unsigned char *out, volatile int *count, int until);
asm(".pushsection .text\n"
    "hold:\n"
    " .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
    " vmovdqu64 \\n*64(%rdi), %zmm\\n\n .endr\n"
    " .irp n,0,1,2,3,4,5,6,7\n kmovq 2048+\\n*8(%rdi), %k\\n\n .endr\n"
    "1: cmp %ecx, (%rdx)\n jl 1b\n"
    " .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
    " vmovdqu64 %zmm\\n, \\n*64(%rsi)\n .endr\n"
    " .irp n,0,1,2,3,4,5,6,7\n kmovq %k\\n, 2048+\\n*8(%rsi)\n .endr\n"
    " vzeroupper\n ret\n"
    ".popsection");

static volatile int signals;

static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    asm volatile("vpternlogd $0xff, %%zmm0, %%zmm0, %%zmm0\n"
                 ".irp n,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
                 " vmovdqa64 %%zmm0, %%zmm\\n\n .endr\n"
                 ".irp n,0,1,2,3,4,5,6,7\n kxnorq %%k\\n, %%k\\n, %%k\\n\n .endr" ::: "memory");
    signals++;
}

int main(void) {
    on_signal(SIGALRM, handler, 0);
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
    static unsigned char in[2048 + 64], out[2048 + 64];
    for (int round = 1; round <= 50; round++) {
        for (int i = 0; i < (int)sizeof in; i++) in[i] = i * 13 + round + i / 256;
        memset(out, 0, sizeof out);
        hold(in, out, &signals, signals + 2);
        CHECK_EQ(memcmp(in, out, sizeof in), 0);
    }
    puts("zmm and mask registers survived 100 signals");
}
