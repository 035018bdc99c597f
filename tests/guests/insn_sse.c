// SSE to SSE4.2: arithmetic with rounding modes, conversions, shuffles, compares, CRC, string
// compares, non-temporal and masked stores, denormals.
// build: -O1 -msse4.2
// needs: sse4_2
#include "check.h"
#include <nmmintrin.h>

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
    static unsigned char memory[256] __attribute__((aligned(64)));
    for (int i = 0; i < 256; i++) memory[i] = (unsigned char)(i * 37 + 11);
    __m128i a = _mm_load_si128((__m128i *)memory), b = _mm_loadu_si128((__m128i *)(memory + 33));
    MIX(_mm_add_epi8(a, b)); MIX(_mm_adds_epu16(a, b)); MIX(_mm_mullo_epi32(a, b)); MIX(_mm_mul_epu32(a, b));
    MIX(_mm_madd_epi16(a, b)); MIX(_mm_sad_epu8(a, b)); MIX(_mm_avg_epu8(a, b)); MIX(_mm_shuffle_epi8(a, b));
    MIX(_mm_shuffle_epi32(a, 0x1b)); MIX(_mm_unpackhi_epi16(a, b)); MIX(_mm_packs_epi32(a, b));
    MIX(_mm_alignr_epi8(a, b, 5)); MIX(_mm_slli_epi64(a, 13)); MIX(_mm_srai_epi16(b, 3)); MIX(_mm_slli_si128(a, 3));
    MIX(_mm_cmpgt_epi8(a, b)); MIX(_mm_cmpgt_epi64(a, b)); MIX(_mm_blendv_epi8(a, b, _mm_cmpgt_epi8(a, b)));
    MIX(_mm_minpos_epu16(a)); MIX(_mm_mpsadbw_epu8(a, b, 5)); MIX(_mm_dp_ps((__m128)a, (__m128)b, 0x71));
    MIX(_mm_movemask_epi8(a)); MIX(_mm_extract_epi32(a, 2)); MIX(_mm_insert_epi8(a, 77, 9));
    MIX(_mm_testz_si128(a, b)); MIX(_mm_hadd_epi16(a, b)); MIX(_mm_sign_epi8(a, b)); MIX(_mm_maddubs_epi16(a, b));
    MIX(_mm_cmpestri(a, 9, b, 14, _SIDD_CMP_EQUAL_ANY)); MIX(_mm_cmpistrm(a, b, _SIDD_CMP_RANGES | _SIDD_UNIT_MASK));
    uint64_t crc = 0xffffffff;
    for (int i = 0; i < 32; i++) crc = _mm_crc32_u64(crc, ((uint64_t *)memory)[i]);
    MIX(crc);
    printf("integers %016lx\n", hash);

    unsigned old = _mm_getcsr();
    for (int mode = 0; mode < 4; mode++) {
        _mm_setcsr((old & ~0x6000u) | (unsigned)mode << 13);
        __m128d x = _mm_set_pd(1.0, -7.0), y = _mm_set_pd(3.0, 11.0);
        asm volatile("" : "+x"(x), "+x"(y));
        MIX(_mm_div_pd(x, y)); MIX(_mm_sqrt_pd(y)); MIX(_mm_cvtpd_ps(_mm_div_pd(x, y)));
        MIX(_mm_cvtsd_si64(_mm_div_pd(y, x))); MIX(_mm_round_pd(_mm_div_pd(y, x), _MM_FROUND_CUR_DIRECTION));
    }
    _mm_setcsr(old | 0x8040); // flush denormals
    __m128 tiny = _mm_set1_ps(1e-38f);
    asm volatile("" : "+x"(tiny));
    MIX(_mm_mul_ps(tiny, _mm_set1_ps(0.01f)));
    _mm_setcsr(old);
    asm volatile("" : "+x"(tiny));
    MIX(_mm_mul_ps(tiny, _mm_set1_ps(0.01f)));
    printf("floats %016lx\n", hash);

    static unsigned char target[64] __attribute__((aligned(64)));
    _mm_stream_si128((__m128i *)target, a);
    _mm_maskmoveu_si128(b, a, (char *)target + 16);
    _mm_storeh_pd((double *)(target + 40), (__m128d)a);
    _mm_storel_pd((double *)(target + 51), (__m128d)b);
    _mm_sfence();
    mix(target, 64);
    printf("stores %016lx\n", hash);
    unsigned flags = _mm_getcsr() & 0x3f;
    printf("sticky flags %02x\n", flags);
}
