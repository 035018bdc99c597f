// AES, carry-less multiplication and SHA instructions, checked against known answers.
// build: -O1 -maes -mpclmul -msha -msse4.1
// needs: aes pclmulqdq sha_ni
#include "check.h"
#include <immintrin.h>

static void show(const char *name, __m128i value) {
    unsigned char bytes[16];
    _mm_storeu_si128((__m128i *)bytes, value);
    printf("%-8s", name);
    for (int i = 0; i < 16; i++) printf("%02x", bytes[i]);
    puts("");
}

static __m128i expand(__m128i key, __m128i generated) {
    generated = _mm_shuffle_epi32(generated, 0xff);
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    return _mm_xor_si128(key, generated);
}

int main(void) {
    // FIPS 197, appendix C.1.
    unsigned char key_bytes[16], text[16];
    for (int i = 0; i < 16; i++) key_bytes[i] = (unsigned char)i, text[i] = (unsigned char)(i * 17);
    __m128i keys[11];
    keys[0] = _mm_loadu_si128((__m128i *)key_bytes);
#define ROUND(n, constant) keys[n] = expand(keys[n - 1], _mm_aeskeygenassist_si128(keys[n - 1], constant))
    ROUND(1, 1); ROUND(2, 2); ROUND(3, 4); ROUND(4, 8); ROUND(5, 16); ROUND(6, 32); ROUND(7, 64); ROUND(8, 128); ROUND(9, 0x1b); ROUND(10, 0x36);
    __m128i block = _mm_xor_si128(_mm_loadu_si128((__m128i *)text), keys[0]);
    for (int i = 1; i < 10; i++) block = _mm_aesenc_si128(block, keys[i]);
    block = _mm_aesenclast_si128(block, keys[10]);
    show("aes", block);
    unsigned char expected[16] = {0x69, 0xc4, 0xe0, 0xd8, 0x6a, 0x7b, 0x04, 0x30, 0xd8, 0xcd, 0xb7, 0x80, 0x70, 0xb4, 0xc5, 0x5a};
    CHECK_EQ(memcmp(&block, expected, 16), 0);
    block = _mm_xor_si128(block, keys[10]);
    for (int i = 9; i > 0; i--) block = _mm_aesdec_si128(block, _mm_aesimc_si128(keys[i]));
    block = _mm_aesdeclast_si128(block, keys[0]);
    CHECK_EQ(memcmp(&block, text, 16), 0);
    __m128i a = _mm_set_epi64x(0x7b5b546573745665, 0x63746f725d53475d), b = _mm_set_epi64x(0x4869285368617929, 0x5b477565726f6e5d);
    show("clmul", _mm_clmulepi64_si128(a, b, 0x00));
    show("clmul", _mm_clmulepi64_si128(a, b, 0x11));
    __m128i state = a, message = b;
    for (int i = 0; i < 10; i++) {
        message = _mm_sha256msg2_epu32(_mm_sha256msg1_epu32(message, state), state);
        state = _mm_sha256rnds2_epu32(state, a, message);
        message = _mm_sha1msg2_epu32(_mm_sha1msg1_epu32(message, state), b);
        state = _mm_sha1rnds4_epu32(state, _mm_sha1nexte_epu32(message, a), 2);
    }
    show("sha", state);
}
