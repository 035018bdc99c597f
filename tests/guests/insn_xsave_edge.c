// Images of vector state at the very end of mapped memory: an instruction touches what its mask asks for, no more.
// build: -O1 -mxsave -mxsavec -mavx
// needs: xsavec avx
#include "check.h"
#include <cpuid.h>
#include <immintrin.h>

enum { PAGE = 4096, X87 = 1, SSE = 2, AVX = 4, LEGACY = 576 };

int main(void) {
    unsigned size, offset, flags, unused;
    __cpuid_count(0xd, 2, size, offset, flags, unused);
    // Room for an image, with nothing behind it.
    unsigned char *room = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(room != MAP_FAILED);
    unsigned char *end = room + 3 * PAGE;
    CHECK_EQ(munmap(end, PAGE), 0);
    unsigned char *legacy = end - LEGACY, *with_avx = end - LEGACY - size;
    CHECK_EQ((uintptr_t)with_avx % 64, 0);
    __m256i pattern = _mm256_set1_epi32(0x5eed);
    for (int round = 0; round < 100; round++) {
        asm volatile("vmovdqa %0, %%ymm5" : : "m"(pattern) : "xmm5");
        memset(legacy, 0, LEGACY);
        _xsave64(legacy, X87 | SSE);
        CHECK_EQ(legacy[512] & SSE, SSE);
        memset(with_avx, 0, LEGACY + size);
        _xsavec64(with_avx, SSE | AVX);
        CHECK_EQ(with_avx[512] & AVX, AVX);
        CHECK_EQ(*(unsigned *)(with_avx + 160 + 5 * 16), 0x5eed);
        asm volatile("vzeroall");
        _xrstor64(with_avx, SSE | AVX);
        __m256i restored;
        asm volatile("vmovdqa %%ymm5, %0" : "=m"(restored));
        CHECK(memcmp(&restored, &pattern, sizeof pattern) == 0);
    }
    puts("images end where memory ends");
}
