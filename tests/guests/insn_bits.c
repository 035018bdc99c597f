// Bit instructions: BMI1, BMI2, popcount, leading zeros, bit tests with offsets far outside their
// operand, double shifts, rotates through carry, byte swaps, ADX.
// build: -O1 -mbmi -mbmi2 -mlzcnt -mpopcnt -mmovbe -madx
// needs: bmi1 bmi2 abm popcnt movbe adx
#include "check.h"
#include <immintrin.h>

int main(void) {
    uint64_t hash = 0, x = 0x123456789abcdef0;
    for (int i = 0; i < 2000; i++) {
        uint64_t y = x * 6364136223846793005u + i, high, carry;
        hash = hash * 31 + _pext_u64(x, y);
        hash = hash * 31 + _pdep_u64(x, y);
        hash = hash * 31 + _bzhi_u64(x, i & 63);
        hash = hash * 31 + _bextr_u64(x, i & 31, 17);
        hash = hash * 31 + _blsr_u64(x) + _blsi_u64(y) + _blsmsk_u64(x) + _andn_u64(x, y);
        hash = hash * 31 + _lzcnt_u64(x) + _tzcnt_u64(y) + __builtin_popcountll(x);
        hash = hash * 31 + _mulx_u64(x, y, (unsigned long long *)&high) + high;
        asm("shld %%cl, %1, %0" : "+r"(hash) : "r"(y), "c"(i) : "cc");
        asm("shrd $13, %1, %0" : "+r"(hash) : "r"(x) : "cc");
        asm("add %1, %0; rcl $5, %0; rcr %%cl, %0" : "+r"(hash) : "r"(x), "c"(i) : "cc");
        asm("sarx %2, %1, %0" : "=r"(carry) : "r"(x), "r"((long)i));
        hash ^= carry;
        asm("rorx $11, %1, %0" : "=r"(carry) : "r"(y));
        hash += carry;
        asm("xor %%eax, %%eax; adcx %1, %0; adox %2, %0; seto %%al; adc %%rax, %0" : "+r"(hash) : "r"(x), "r"(y) : "rax", "cc");
        unsigned int narrow = (unsigned)y;
        asm("movbe %1, %k0; bswap %k0" : "=r"(high) : "m"(narrow));
        hash ^= high;
        asm("bsf %1, %0; cmovz %2, %0" : "=&r"(carry) : "r"(x), "r"(77l) : "cc");
        hash += carry;
        x = y;
    }
    printf("hash %016lx\n", hash);
    // A bit offset in a register reaches bytes before and after the operand.
    static unsigned char bytes[300];
    for (long offset = -1000; offset < 1000; offset += 7) asm("btsq %1, %0" : "+m"(bytes[150]) : "r"(offset) : "cc", "memory");
    for (long offset = -900; offset < 900; offset += 21) asm("btcl %k1, %0" : "+m"(bytes[150]) : "r"(offset) : "cc", "memory");
    int set = 0;
    for (int i = 0; i < 300; i++) set += __builtin_popcount(bytes[i]);
    unsigned char carry;
    asm("btq %2, %1; setc %0" : "=r"(carry) : "m"(bytes[150]), "r"(-1000l) : "cc");
    printf("%d bits set, first %d\n", set, carry);
}
