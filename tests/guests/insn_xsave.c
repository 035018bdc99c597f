// XSAVE, XSAVEC, XSAVEOPT, XRSTOR, FXSAVE, FXRSTOR and XGETBV: sizes from CPUID, components that
// were asked for, and exact restoring.
// build: -O1 -mxsave -mavx
// needs: xsave avx
#include "check.h"
#include <cpuid.h>
#include <immintrin.h>

static unsigned char area[16384] __attribute__((aligned(64))), second[16384] __attribute__((aligned(64)));

static void load(unsigned char start) {
    unsigned char bytes[32];
    for (int i = 0; i < 32; i++) bytes[i] = (unsigned char)(start + i);
    asm volatile("vmovdqu %0, %%ymm0; vmovdqu %0, %%ymm9" ::"m"(bytes) : "xmm0", "xmm9");
}
static int holds(unsigned char start) {
    unsigned char zero[32], nine[32];
    asm volatile("vmovdqu %%ymm0, %0; vmovdqu %%ymm9, %1" : "=m"(zero), "=m"(nine));
    for (int i = 0; i < 32; i++)
        if (zero[i] != (unsigned char)(start + i) || nine[i] != (unsigned char)(start + i)) return 0;
    return 1;
}

int main(void) {
    unsigned a, b, c, d;
    CHECK(__get_cpuid_count(13, 0, &a, &b, &c, &d));
    uint64_t enabled = _xgetbv(0);
    CHECK_EQ(enabled & 7, 7);
    CHECK_EQ(enabled & ~((uint64_t)d << 32 | a), 0);
    CHECK(b <= sizeof area && b >= 832);
    // The size that CPUID reports is the size that is written: the byte behind it is untouched.
    memset(area, 0xee, sizeof area);
    memset(area + 512, 0, 64);
    load(1);
    _xsave64(area, ~0ull);
    CHECK_EQ(area[b], 0xee);
    uint64_t present;
    memcpy(&present, area + 512, 8);
    CHECK_EQ(present & 6, 6);
    load(100);
    CHECK(holds(100));
    _xrstor64(area, ~0ull);
    CHECK(holds(1));
    puts("all components");

    load(50);
    memset(second, 0, sizeof second);
    _xsave64(second, 2); // the low halves only
    load(70);
    _xrstor64(second, 2);
    unsigned char got[32];
    asm volatile("vmovdqu %%ymm0, %0" : "=m"(got));
    printf("low half %d, high half %d\n", got[0], got[16]);

    // An absent component is restored to its initial state.
    load(30);
    memset(second, 0, sizeof second);
    _xrstor64(second, 6);
    asm volatile("vmovdqu %%ymm0, %0" : "=m"(got));
    printf("initial %d %d\n", got[0], got[31]);

    CHECK(__get_cpuid_count(13, 1, &a, &b, &c, &d));
    if (a & 2) {
        load(60);
        memset(second, 0, sizeof second);
        asm volatile("xsavec64 %0" : "+m"(second) : "a"(7), "d"(0) : "memory");
        memcpy(&present, second + 520, 8);
        CHECK(present >> 63);
        load(90);
        _xrstor64(second, 7);
        CHECK(holds(60));
    }
    if (a & 1) {
        load(61);
        memset(second, 0, sizeof second);
        asm volatile("xsaveopt64 %0" : "+m"(second) : "a"(7), "d"(0) : "memory");
        load(91);
        _xrstor64(second, 7);
        CHECK(holds(61));
    }
    asm volatile("vzeroupper; fldpi; movd %1, %%xmm3; fxsave64 %0; fstp %%st(0); pxor %%xmm3, %%xmm3" : "=m"(area) : "r"(1234) : "xmm3");
    double pi;
    int three;
    asm volatile("fxrstor64 %2; fstpl %0; movd %%xmm3, %1" : "=m"(pi), "=r"(three) : "m"(area) : "xmm3");
    printf("fxrstor %.5f %d\n", pi, three);
    // The unoccupied end of the FXSAVE area is the program's to use.
    area[464] = 77;
    asm volatile("fxsave64 %0" : "+m"(area));
    CHECK_EQ(area[464], 77);
}
