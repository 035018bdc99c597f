// Inline caches: a call's displacement is patched to another target again and again, and a jump
// over a block is switched on and off, as dynamic runtimes do.
#include "check.h"

int main(void) {
    unsigned char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    for (int i = 0; i < 100; i++) {
        unsigned char *target = page + 4096 + i * 16;
        target[0] = 0xb8;
        memcpy(target + 1, &i, 4);
        target[5] = 0xc3;
    }
    // sub rsp, 8; call target; add rsp, 8; ret - with the displacement aligned, as patchers need.
    memcpy(page, "\x48\x83\xec\x08\x0f\x1f\x00\xe8\x00\x00\x00\x00\x48\x83\xc4\x08\xc3", 17);
    long sum = 0;
    for (int i = 0; i < 5000; i++) {
        int target = i * 37 % 100;
        int distance = (int)(page + 4096 + target * 16 - (page + 12));
        __atomic_store_n((int *)(page + 8), distance, __ATOMIC_SEQ_CST);
        int got = ((int (*)(void))page)();
        CHECK_EQ(got, target);
        sum += got;
    }
    printf("sum %ld\n", sum);
    // A jump that becomes a nop: xor eax, eax; jmp +5 / nop; add eax, 1; nop; nop; ret
    memcpy(page + 64, "\x31\xc0\xeb\x03\x83\xc0\x01\xc3", 8);
    for (int i = 0; i < 2000; i++) {
        unsigned short jump = i % 2 ? 0x9066 : 0x03eb;
        __atomic_store_n((unsigned short *)(page + 66), jump, __ATOMIC_SEQ_CST);
        CHECK_EQ(((int (*)(void))(page + 64))(), i % 2);
    }
    puts("jump switched 2000 times");
}
