// Indirect functions: a resolver runs before main and picks the implementation, also for calls
// through a pointer.
#include "check.h"

static int resolved;
static int fast(int x) { return x * 2; }
static int slow(int x) {
    int result = 0;
    for (int i = 0; i < x; i++) result += 2;
    return result;
}
static int (*resolve(void))(int) {
    resolved++;
    unsigned eax = 0, ebx, ecx, edx;
    asm volatile("cpuid" : "+a"(eax), "=b"(ebx), "=c"(ecx), "=d"(edx));
    return eax >= 1 ? fast : slow;
}
int twice(int x) __attribute__((ifunc("resolve")));

int main(void) {
    int (*volatile pointer)(int) = twice;
    int sum = 0;
    for (int i = 0; i < 1000; i++) sum += twice(i) + pointer(i);
    CHECK(resolved >= 1);
    printf("sum %d\n", sum);
}
