// AVX-512: masks, broadcasts, embedded rounding, compress and expand, two-table permutes, ternary
// logic, gathers and scatters, fault suppression, and registers 16 to 31.
// build: -O1 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512cd
// needs: avx512f avx512bw avx512vl avx512dq avx512cd
#include "check.h"
#include <immintrin.h>

static uint64_t hash = 14695981039346656037u;
static void mix(const void *data, size_t size) {
    for (size_t i = 0; i < size; i++) hash = (hash ^ ((const unsigned char *)data)[i]) * 1099511628211u;
}
#define MIX(value)                     \
    do {                               \
        __typeof__(value) mixed = (value); \
        mix(&mixed, sizeof mixed);     \
    } while (0)

int main(void) {
    static int memory[256] __attribute__((aligned(64)));
    for (int i = 0; i < 256; i++) memory[i] = i * 2654435761u;
    __m512i a = _mm512_load_si512(memory), b = _mm512_loadu_si512((char *)memory + 123);
    __mmask16 mask = 0xa5c3;
    MIX(_mm512_mask_add_epi32(a, mask, a, b)); MIX(_mm512_maskz_sub_epi32(mask, a, b)); MIX(_mm512_ternarylogic_epi32(a, b, a, 0x96));
    MIX(_mm512_maskz_compress_epi32(mask, a)); MIX(_mm512_maskz_expand_epi32(mask, b)); MIX(_mm512_permutex2var_epi32(a, b, b));
    MIX(_mm512_rolv_epi32(a, b)); MIX(_mm512_conflict_epi32(_mm512_and_si512(a, _mm512_set1_epi32(7)))); MIX(_mm512_lzcnt_epi32(a));
    MIX(_mm512_cmpgt_epi32_mask(a, b)); MIX(_mm512_cmpeq_epi8_mask(a, b)); MIX(_mm512_test_epi16_mask(a, b));
    MIX(_mm512_mullo_epi64(a, b)); MIX(_mm512_cvtepi32_epi8(a)); MIX(_mm512_cvtusepi16_epi8(b)); MIX(_mm512_reduce_add_epi32(a));
    MIX(_mm256_mask_mov_epi32(_mm512_castsi512_si256(a), 0x5a, _mm512_castsi512_si256(b)));
    __m512i index = _mm512_and_si512(a, _mm512_set1_epi32(255));
    MIX(_mm512_i32gather_epi32(index, memory, 4)); MIX(_mm512_mask_i32gather_epi32(b, mask, index, memory, 4));
    static int target[256];
    _mm512_i32scatter_epi32(target, index, b, 4);
    _mm512_mask_i32scatter_epi32(target, mask, index, a, 4);
    mix(target, sizeof target);
    printf("integers %016lx\n", hash);
    __m512d x = _mm512_set1_pd(1.0), y = _mm512_set1_pd(3.0);
    asm volatile("" : "+v"(x), "+v"(y));
    MIX(_mm512_div_round_pd(x, y, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC));
    MIX(_mm512_div_round_pd(x, y, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
    MIX(_mm512_sqrt_pd(y)); MIX(_mm512_scalef_pd(x, y)); MIX(_mm512_getexp_pd(y)); MIX(_mm512_roundscale_pd(_mm512_div_pd(x, y), 0x41));
    MIX(_mm512_fixupimm_pd(x, y, a, 5)); MIX(_mm512_range_pd(x, y, 3)); MIX(_mm512_fpclass_pd_mask(x, 0x18)); MIX(_mm512_cvtpd_epi64(y));
    printf("floats %016lx\n", hash);
    // High registers and masks through assembly.
    uint64_t out[8], bits;
    asm volatile("vpternlogd $0xff, %%zmm31, %%zmm31, %%zmm31; vpsrlq $7, %%zmm31, %%zmm17; vmovdqu64 %%zmm17, %0;"
                 "kmovq %2, %%k5; kshiftrq $3, %%k5, %%k6; knotq %%k6, %%k7; kmovq %%k7, %1"
                 : "=m"(out), "=r"(bits)
                 : "r"(0x123456789abcdefl)
                 : "memory");
    mix(out, sizeof out);
    MIX(bits);
    // A masked load and store beyond the mapping: inactive lanes do not fault.
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    CHECK_EQ(munmap(page + 4096, 4096), 0);
    memset(page, 7, 4096);
    __m512i loaded = _mm512_maskz_loadu_epi8(0xffff, page + 4080);
    MIX(loaded);
    _mm512_mask_storeu_epi8(page + 4080, 0xff0f, a);
    mix(page + 4000, 96);
    printf("masks %016lx\n", hash);
}
