// AVX2, FMA and F16C: wide integers, permutes, gathers, fused arithmetic, and the zeroing of upper
// halves by narrow operations.
// build: -O1 -mavx2 -mfma -mf16c
// needs: avx2 fma f16c
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
    static unsigned char memory[512] __attribute__((aligned(64)));
    for (int i = 0; i < 512; i++) memory[i] = (unsigned char)(i * 53 + 7 + i / 256);
    __m256i a = _mm256_load_si256((__m256i *)memory), b = _mm256_loadu_si256((__m256i *)(memory + 77));
    MIX(_mm256_add_epi32(a, b)); MIX(_mm256_mullo_epi16(a, b)); MIX(_mm256_shuffle_epi8(a, b));
    MIX(_mm256_permutevar8x32_epi32(a, b)); MIX(_mm256_permute4x64_epi64(a, 0x4e)); MIX(_mm256_permute2x128_si256(a, b, 0x31));
    MIX(_mm256_sllv_epi32(a, _mm256_and_si256(b, _mm256_set1_epi32(31)))); MIX(_mm256_srav_epi32(a, _mm256_set1_epi32(5)));
    MIX(_mm256_cmpgt_epi64(a, b)); MIX(_mm256_movemask_epi8(a)); MIX(_mm256_sad_epu8(a, b)); MIX(_mm256_blendv_epi8(a, b, a));
    MIX(_mm256_alignr_epi8(a, b, 7)); MIX(_mm256_broadcastb_epi8(_mm256_castsi256_si128(b))); MIX(_mm256_extracti128_si256(a, 1));
    MIX(_mm256_cvtepi8_epi16(_mm256_castsi256_si128(a)));
    __m256i index = _mm256_set_epi32(7, 3, 60, 12, 1, 33, 20, 5);
    MIX(_mm256_i32gather_epi32((int *)memory, index, 4));
    MIX(_mm256_mask_i32gather_epi32(b, (int *)memory, index, a, 4));
    MIX(_mm256_i64gather_epi64((long long *)memory, _mm256_set_epi64x(9, 2, 30, 4), 8));
    printf("integers %016lx\n", hash);

    __m256 x = _mm256_set_ps(1, -2, 3.5f, 4, 0.1f, 6, -7, 8), y = _mm256_set1_ps(1.5f), z = _mm256_set1_ps(-0.3f);
    asm volatile("" : "+x"(x), "+x"(y), "+x"(z));
    MIX(_mm256_fmadd_ps(x, y, z)); MIX(_mm256_fnmsub_ps(x, y, z)); MIX(_mm256_fmaddsub_ps(x, y, z)); MIX(_mm256_div_ps(x, y));
    MIX(_mm256_cmp_ps(x, y, _CMP_NLT_UQ)); MIX(_mm256_round_ps(x, _MM_FROUND_TO_ZERO)); MIX(_mm256_hadd_ps(x, y));
    MIX(_mm256_cvtps_ph(x, 0)); MIX(_mm256_cvtph_ps(_mm_set1_epi16(0x3c01))); MIX(_mm256_cvttps_epi32(x));
    MIX(_mm256_dp_ps(x, y, 0xf1)); MIX(_mm256_permutevar_ps(x, a)); MIX(_mm256_testz_si256(a, b));
    printf("floats %016lx\n", hash);

    // A VEX operation of 128 bits clears the upper half, a legacy one keeps it.
    __m256i wide = _mm256_set1_epi32(-1), vex = wide, legacy = wide;
    asm volatile("vpaddd %%xmm0, %%xmm0, %%xmm0" : "+Yz"(vex));
    asm volatile("paddd %%xmm0, %%xmm0" : "+Yz"(legacy));
    CHECK_EQ(_mm256_extract_epi64(vex, 3), 0);
    CHECK_EQ(_mm256_extract_epi64(legacy, 3), -1);
    static int target[8];
    _mm256_maskstore_epi32(target, _mm256_set_epi32(-1, 0, -1, 0, 0, -1, -1, 0), a);
    mix(target, sizeof target);
    MIX(_mm256_maskload_epi32((int *)memory, _mm256_set_epi32(-1, 0, -1, 0, 0, -1, -1, 0)));
    printf("masks %016lx\n", hash);
}
