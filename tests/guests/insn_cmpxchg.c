// Compare-exchange of 8, 16, 32, 64 and 128 bits, with and without lock: results, flags, memory,
// and the fault of a misaligned 128-bit one.
// build: -O1 -mcx16
// needs: cx16
#include "check.h"
#include <setjmp.h>

static sigjmp_buf recover;
static int code;
static void handler(int number, siginfo_t *info, void *context) {
    (void)context;
    code = number * 1000 + info->si_code;
    siglongjmp(recover, 1);
}

int main(void) {
    uint64_t memory = 0x1122334455667788, accumulator = 0x1122334455667788;
    unsigned char equal;
    asm volatile("lock cmpxchgq %3, %1; sete %0" : "=q"(equal), "+m"(memory), "+a"(accumulator) : "r"(7l) : "cc");
    printf("%d %lx %lx\n", equal, memory, accumulator);
    accumulator = 8;
    asm volatile("cmpxchgb %b3, %1; sete %0" : "=q"(equal), "+m"(memory), "+a"(accumulator) : "r"(9l) : "cc");
    printf("%d %lx %lx\n", equal, memory, accumulator);
    accumulator = 0xffffffff00000007;
    asm volatile("cmpxchgl %k3, %1; sete %0" : "=q"(equal), "+m"(memory), "+a"(accumulator) : "r"(-1l) : "cc");
    printf("%d %lx %lx\n", equal, memory, accumulator);
    uint64_t low = 0x5566, high = 0x77;
    memory = 0x0000007700005566;
    asm volatile("cmpxchg8b %1; sete %0" : "=q"(equal), "+m"(memory), "+a"(low), "+d"(high) : "b"(1l), "c"(2l) : "cc");
    printf("%d %lx\n", equal, memory);
    static uint64_t pair[4] __attribute__((aligned(16))) = {1, 2, 3, 4};
    low = 1, high = 2;
    asm volatile("lock cmpxchg16b %1; sete %0" : "=q"(equal), "+m"(*(unsigned __int128 *)pair), "+a"(low), "+d"(high) : "b"(10l), "c"(20l) : "cc");
    printf("%d %lu %lu\n", equal, pair[0], pair[1]);
    asm volatile("cmpxchg16b %1; sete %0" : "=q"(equal), "+m"(*(unsigned __int128 *)pair), "+a"(low), "+d"(high) : "b"(11l), "c"(21l) : "cc");
    printf("%d %lu %lu\n", equal, low, high);
    on_signal(SIGSEGV, handler, 0);
    on_signal(SIGBUS, handler, 0);
    if (sigsetjmp(recover, 1) == 0) {
        asm volatile("lock cmpxchg16b 8(%0)" ::"r"(pair), "a"(0l), "b"(0l), "c"(0l), "d"(0l) : "memory", "cc");
        check_failed("no fault\n");
    }
    printf("misaligned: %d\n", code);
    uint64_t value = 5, add = 3;
    asm volatile("lock xaddq %0, %1" : "+r"(add), "+m"(value)::"cc");
    printf("%lu %lu\n", add, value);
    asm volatile("xchgq %0, %1" : "+r"(add), "+m"(value));
    printf("%lu %lu\n", add, value);
}
