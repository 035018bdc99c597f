// Vector registers held across asynchronous signals whose handler overwrites all of them.
// build: -mavx2
// needs: avx2
#include "check.h"
#include <sys/time.h>

void hold(const unsigned char *in, unsigned char *out, volatile int *count, int until);
asm(".pushsection .text\n"
    "hold:\n"
    " .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovdqu \\n*32(%rdi), %ymm\\n\n .endr\n"
    "1: cmp %ecx, (%rdx)\n jl 1b\n"
    " .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovdqu %ymm\\n, \\n*32(%rsi)\n .endr\n"
    " vzeroupper\n ret\n"
    ".popsection");

static volatile int signals;

static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    asm volatile("vpcmpeqd %%ymm0, %%ymm0, %%ymm0\n"
                 ".irp n,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovdqa %%ymm0, %%ymm\\n\n .endr" ::: "memory");
    signals++;
}

int main(void) {
    on_signal(SIGALRM, handler, 0);
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
    unsigned char in[512], out[512];
    for (int round = 1; round <= 50; round++) {
        for (int i = 0; i < 512; i++) in[i] = i * 13 + round + i / 256;
        memset(out, 0, sizeof out);
        hold(in, out, &signals, signals + 2);
        CHECK_EQ(memcmp(in, out, sizeof in), 0);
    }
    puts("ymm registers survived 100 signals");
}
