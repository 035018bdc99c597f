// A JIT that never has writable and executable memory at once: write, protect, call, and again.
#include "check.h"

int main(void) {
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    long sum = 0;
    for (int i = 0; i < 2000; i++) {
        CHECK_EQ(mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
        page[0] = 0xb8; // mov eax, i
        memcpy(page + 1, &i, 4);
        page[5] = 0xc3;
        CHECK_EQ(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
        int got = ((int (*)(void))page)();
        CHECK_EQ(got, i);
        sum += got;
        if (i % 3 == 0) sum += ((int (*)(void))page)();
    }
    printf("sum %ld\n", sum);
    // Shrinking and growing the executable range around it.
    CHECK_EQ(mprotect(page, 4096, PROT_READ), 0);
    CHECK_EQ(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
    CHECK_EQ(((int (*)(void))page)(), 1999);
    puts("same code after the protection came back");
}
