// A garbage collector's write barrier: pages are protected, the handler opens the page that was
// written, and the interrupted store is done again with nothing else changed.
#include "check.h"
#define PAGE 4096
#define PAGES 64

static char *heap;
static volatile int dirty[PAGES];

static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    long page = ((char *)info->si_addr - heap) / PAGE;
    CHECK(page >= 0 && page < PAGES);
    dirty[page]++;
    CHECK_EQ(mprotect(heap + page * PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
}

int main(void) {
    on_signal(SIGSEGV, handler, 0);
    heap = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(heap != MAP_FAILED);
    uint64_t hash = 0;
    for (int cycle = 0; cycle < 20; cycle++) {
        CHECK_EQ(mprotect(heap, PAGES * PAGE, PROT_READ), 0);
        uint64_t random = 12345 + cycle;
        for (int i = 0; i < 500; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            uint32_t *cell = (uint32_t *)(heap + (random >> 33) % (PAGES * PAGE / 4) * 4);
            switch (random >> 20 & 3) {
            case 0: *cell += (uint32_t)random; break;
            case 1: *cell = *cell * 3 + 1; break;
            case 2: asm volatile("lock xaddl %0, %1" : "+r"((uint32_t){1}), "+m"(*cell)); break;
            default: asm volatile("rorl $7, %0" : "+m"(*cell)); break;
            }
        }
        // One string that crosses pages: the fault comes in its middle.
        memset(heap + 10 * PAGE - 100, cycle, 3 * PAGE);
    }
    for (int i = 0; i < PAGES * PAGE; i++) hash = hash * 31 + (unsigned char)heap[i];
    int total = 0;
    for (int i = 0; i < PAGES; i++) total += dirty[i];
    printf("%d barriers, hash %016lx\n", total, hash);
}
