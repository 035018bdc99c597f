// Atomic operations of every width under contention: add, exchange, compare-exchange, bit
// operations, also on values that straddle cache lines.
// build: -pthread -mcx16 -Wno-address-of-packed-member
#include "check.h"
#include <pthread.h>

#define THREADS 4
#define ROUNDS 20000
static char c8;
static short c16;
static int c32;
static long c64, by_cas, by_xchg_lock, guarded;
static struct { char pad[61]; long straddling; } __attribute__((packed, aligned(64))) split;
static unsigned __int128 wide __attribute__((aligned(16)));
static unsigned long bits[4];

static void *work(void *argument) {
    long self = (long)argument;
    for (int i = 0; i < ROUNDS; i++) {
        asm volatile("lock addb $1, %0" : "+m"(c8));
        asm volatile("lock incw %0" : "+m"(c16));
        asm volatile("lock subl $-1, %0" : "+m"(c32));
        long one = 1;
        asm volatile("lock xaddq %0, %1" : "+r"(one), "+m"(c64));
        long old = __atomic_load_n(&by_cas, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(&by_cas, &old, old + 2, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {}
        while (__atomic_exchange_n(&by_xchg_lock, 1, __ATOMIC_ACQUIRE)) asm volatile("pause");
        guarded++;
        __atomic_store_n(&by_xchg_lock, 0, __ATOMIC_RELEASE);
        // Few: some processors punish an access that straddles two cache lines with a long delay.
        if (i % 2000 == 0) asm volatile("lock addq $1, %0" : "+m"(split.straddling));
        unsigned long low, high;
        unsigned char done;
        do {
            unsigned __int128 seen = wide;
            low = (unsigned long)seen, high = (unsigned long)(seen >> 64);
            asm volatile("lock cmpxchg16b %1; sete %0"
                         : "=q"(done), "+m"(wide), "+a"(low), "+d"(high)
                         : "b"(low + 1), "c"(high + 3));
        } while (!done);
        unsigned long bit = (self * ROUNDS + i) % 256;
        asm volatile("lock btcq %1, %0" : "+m"(bits[bit / 64]) : "r"(bit % 64));
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    CHECK_EQ(c8, (char)(THREADS * ROUNDS));
    CHECK_EQ(c16, (short)(THREADS * ROUNDS));
    printf("%d %ld %ld %ld %ld\n", c32, c64, by_cas, guarded, split.straddling);
    printf("wide %lu %lu\n", (unsigned long)wide, (unsigned long)(wide >> 64));
    printf("bits %016lx %016lx %016lx %016lx\n", bits[0], bits[1], bits[2], bits[3]);
    CHECK_EQ(c32, THREADS * ROUNDS);
}
