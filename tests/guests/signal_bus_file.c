// Memory mapped beyond a file's end, and a file truncated under its mapping: SIGBUS.
#include "check.h"
#include <fcntl.h>
#include <setjmp.h>

static sigjmp_buf recover;
static siginfo_t info;
static long error;

static void handler(int number, siginfo_t *got, void *context) {
    CHECK_EQ(number, SIGBUS);
    info = *got;
    error = ((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR];
    siglongjmp(recover, 1);
}

static volatile int faults(volatile char *address, int write) {
    if (sigsetjmp(recover, 1)) {
        CHECK_EQ(info.si_code, BUS_ADRERR);
        CHECK_EQ((long)info.si_addr, (long)address);
        CHECK_EQ(error, write ? 6 : 4);
        return 1;
    }
    if (write) *address = 1;
    else (void)*address;
    return 0;
}

int main(void) {
    on_signal(SIGBUS, handler, 0);
    int file = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0);
    CHECK_EQ(ftruncate(file, 5000), 0);
    char *map = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(map != MAP_FAILED);
    for (int page = 0; page < 4; page++)
        printf("page %d: read %s, write %s\n", page, faults(map + page * 4096 + 7, 0) ? "faults" : "works",
               faults(map + page * 4096 + 8, 1) ? "faults" : "works");
    CHECK_EQ(map[8], 1);
    CHECK_EQ(ftruncate(file, 0), 0);
    printf("truncated: %d\n", faults(map + 8, 0));
    CHECK_EQ(ftruncate(file, 16384), 0);
    printf("extended: %d, byte %d\n", faults(map + 3 * 4096, 1), map[8]);
    close(file);
    unlink("data");
}
