// One thread patches code that another one is running in a loop: the change arrives, whole.
// build: -pthread
#include "check.h"
#include <pthread.h>

static unsigned char *page;
static volatile int phases[2];
static volatile long bad;

static void *run(void *argument) {
    volatile int *phase = &phases[(long)argument];
    int (*function)(void) = (int (*)(void))page;
    long calls = 0;
    for (int wanted = 1; wanted <= 60; wanted++) {
        // Until the new version is seen; never anything but versions that were written.
        for (;;) {
            int got = function();
            if (got == wanted) break;
            if (got != wanted - 1) bad++;
            // With fewer processors than threads the patcher must get its turn.
            if (++calls % 1000 == 0) sched_yield();
        }
        __atomic_store_n(phase, wanted, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static void *spin_inside(void *unused) {
    (void)unused;
    // A loop that lives wholly in the patched page: 1: jmp 1b, patched to nops and ret.
    ((void (*)(void))(page + 2048))();
    return NULL;
}

int main(void) {
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    // nop x3; mov eax, imm32; ret: the immediate is aligned, so a store to it is atomic.
    memcpy(page, "\x0f\x1f\x00\xb8\x00\x00\x00\x00\xc3", 9);
    pthread_t thread, second;
    CHECK_EQ(pthread_create(&thread, NULL, run, (void *)0), 0);
    CHECK_EQ(pthread_create(&second, NULL, run, (void *)1), 0);
    for (int i = 1; i <= 60; i++) {
        __atomic_store_n((int *)(page + 4), i, __ATOMIC_SEQ_CST);
        for (int runner = 0; runner < 2; runner++)
            while (__atomic_load_n(&phases[runner], __ATOMIC_SEQ_CST) != i) sched_yield();
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(pthread_join(second, NULL), 0);
    puts("60 versions");

    memcpy(page + 2048, "\xeb\xfe\xc3", 3);
    CHECK_EQ(pthread_create(&thread, NULL, spin_inside, NULL), 0);
    usleep(20000);
    __atomic_store_n((unsigned short *)(page + 2048), 0x9066, __ATOMIC_SEQ_CST);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    puts("a self-jump patched away");
    CHECK_EQ(bad, 0);
}
