// mincore, mlock, munlock, msync, mlock2 and their errors.
#include "check.h"
#include <fcntl.h>
#include <sys/resource.h>

int main(void) {
    char *base = mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED);
    unsigned char state[8];
    CHECK_EQ(mincore(base, 8 * 4096, state), 0);
    for (int i = 0; i < 8; i++) CHECK_EQ(state[i] & 1, 0);
    base[0] = base[3 * 4096] = 1;
    CHECK_EQ(mincore(base, 8 * 4096, state), 0);
    for (int i = 0; i < 8; i++) printf("%d", state[i] & 1);
    puts("");
    CHECK_EQ(mlock(base, 2 * 4096), 0);
    CHECK_EQ(mincore(base, 8 * 4096, state), 0);
    for (int i = 0; i < 8; i++) printf("%d", state[i] & 1);
    puts("");
    CHECK_FAILS(msync(base, 4096, MS_INVALIDATE | MS_SYNC), EBUSY);
    CHECK_EQ(munlock(base, 2 * 4096), 0);
    CHECK_EQ(munmap(base + 4 * 4096, 4096), 0);
    CHECK_FAILS(mincore(base, 8 * 4096, state), ENOMEM);
    CHECK_FAILS(mincore(base + 1, 4096, state), EINVAL);
    CHECK_FAILS(mincore(base, 4096, (void *)8), EFAULT);
    CHECK_FAILS(mlock(base, 8 * 4096), ENOMEM);
    CHECK_FAILS(msync(base, 8 * 4096, MS_SYNC), ENOMEM);
    CHECK_FAILS(msync(base, 4096, MS_SYNC | MS_ASYNC), EINVAL);
    puts("errors as documented");
}
