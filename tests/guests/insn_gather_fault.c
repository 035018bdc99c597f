// Gathers and masked moves that meet a bad page: inactive lanes do not fault, an active one does
// with its address, and lanes done before stay done with their mask bits cleared.
// build: -O1 -mavx2
// needs: avx2
#include "check.h"
#include <immintrin.h>

static char *base;
static volatile int faults;
static volatile long address;

static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    address = (char *)info->si_addr - base;
    faults++;
    CHECK_EQ(mprotect(base + 4096, 4096, PROT_READ | PROT_WRITE), 0);
}

int main(void) {
    on_signal(SIGSEGV, handler, 0);
    base = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED);
    for (int i = 0; i < 2048; i++) ((int *)base)[i] = i * 3;
    CHECK_EQ(mprotect(base + 4096, 4096, PROT_NONE), 0);

    __m256i index = _mm256_set_epi32(1025, 6, 1500, 4, 3, 2, 1, 0), old = _mm256_set1_epi32(-5);
    __m256i good = _mm256_set_epi32(0, -1, 0, -1, -1, -1, -1, -1), all = _mm256_set1_epi32(-1);
    int out[8];
    _mm256_storeu_si256((__m256i *)out, _mm256_mask_i32gather_epi32(old, (int *)base, index, good, 4));
    for (int i = 0; i < 8; i++) printf("%d ", out[i]);
    printf("faults %d\n", faults);
    _mm256_storeu_si256((__m256i *)out, _mm256_mask_i32gather_epi32(old, (int *)base, index, all, 4));
    for (int i = 0; i < 8; i++) printf("%d ", out[i]);
    printf("faults %d at %ld\n", faults, address);

    // Masked load and store at the edge.
    CHECK_EQ(mprotect(base + 4096, 4096, PROT_NONE), 0);
    __m256i first_half = _mm256_set_epi32(0, 0, 0, 0, -1, -1, -1, -1);
    _mm256_storeu_si256((__m256i *)out, _mm256_maskload_epi32((int *)(base + 4080), first_half));
    for (int i = 0; i < 8; i++) printf("%d ", out[i]);
    printf("faults %d\n", faults);
    _mm256_maskstore_epi32((int *)(base + 4080), first_half, _mm256_set1_epi32(9));
    CHECK_EQ(faults, 1);
    _mm256_maskstore_epi32((int *)(base + 4080), all, _mm256_set1_epi32(8));
    printf("faults %d at %ld, stored %d %d\n", faults, address, *(int *)(base + 4080), *(int *)(base + 4108));
    // maskmovdqu with an empty mask never stores.
    asm volatile("pxor %%xmm0, %%xmm0; maskmovdqu %%xmm0, %%xmm0" ::"D"(base) : "xmm0", "memory");
    puts("done");
}
