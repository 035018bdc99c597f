// The extended state in a signal frame: marked by its magic numbers, exact and writable in the
// upper halves of the ymm registers.
// build: -mavx
// needs: avx
#include "check.h"
#define MAGIC1 0x46505853u
#define MAGIC2 0x46505845u
#include <cpuid.h>

void fault_with(const unsigned char *in, unsigned char *out);
extern char fault_at[], fault_after[];
asm(".pushsection .text\n"
    "fault_with:\n"
    " .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovdqu \\n*32(%rdi), %ymm\\n\n .endr\n"
    "fault_at: mov 0x10, %eax\n"
    "fault_after:\n"
    " .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovdqu %ymm\\n, \\n*32(%rsi)\n .endr\n"
    " vzeroupper\n ret\n"
    ".popsection");

static unsigned char in[512], out[512];
static int change;
static unsigned upper_offset;

static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ucontext_t *uc = context;
    unsigned char *area = (unsigned char *)uc->uc_mcontext.fpregs;
    CHECK_EQ((uintptr_t)area % 64, 0);
    CHECK(uc->uc_flags & 1); // UC_FP_XSTATE
    struct _fpx_sw_bytes software;
    memcpy(&software, area + 464, sizeof software);
    CHECK_EQ(software.magic1, MAGIC1);
    CHECK_EQ(software.xstate_bv & 7, 7);
    CHECK_EQ(software.extended_size, software.xstate_size + 4);
    unsigned magic2;
    memcpy(&magic2, area + software.xstate_size, 4);
    CHECK_EQ(magic2, MAGIC2);
    uint64_t present;
    memcpy(&present, area + 512, 8);
    CHECK_EQ(present & 6, 6);
    for (int i = 0; i < 16; i++) {
        CHECK_EQ(memcmp(area + 160 + i * 16, in + i * 32, 16), 0);
        CHECK_EQ(memcmp(area + upper_offset + i * 16, in + i * 32 + 16, 16), 0);
        if (!change) continue;
        for (int j = 0; j < 16; j++) {
            area[160 + i * 16 + j] ^= 0x55;
            area[upper_offset + i * 16 + j] ^= 0xaa;
        }
    }
    uc->uc_mcontext.gregs[REG_RIP] = (greg_t)fault_after;
    asm volatile("vzeroall" ::: "memory");
}

int main(void) {
    unsigned a, b, c, d;
    CHECK(__get_cpuid_count(13, 2, &a, &b, &c, &d));
    upper_offset = b;
    on_signal(SIGSEGV, handler, 0);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 512; i++) in[i] = i * 7 + round + i / 256;
        change = round & 1;
        fault_with(in, out);
        for (int i = 0; i < 512; i++) {
            unsigned char expected = in[i];
            if (change) expected ^= i & 16 ? 0xaa : 0x55;
            CHECK_EQ(out[i], expected);
        }
    }
    puts("ymm0 to ymm15 exact and writable");
}
