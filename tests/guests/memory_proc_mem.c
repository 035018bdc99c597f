// Memory through the back doors: /proc/self/mem, process_vm_readv and process_vm_writev, of
// oneself and of a child.
#include "check.h"
#include <fcntl.h>
#include <sys/uio.h>

static char text[32] = "untouched";

int main(void) {
    int memory = open("/proc/self/mem", O_RDWR);
    CHECK(memory >= 0);
    char copy[32];
    CHECK_EQ(pread(memory, copy, 10, (off_t)text), 10);
    printf("read %s\n", copy);
    CHECK_EQ(pwrite(memory, "written", 8, (off_t)text), 8);
    printf("now %s\n", text);
    CHECK_FAILS(pread(memory, copy, 10, 8), EIO);
    // Its own code, as the program sees it.
    CHECK_EQ(pread(memory, copy, 16, (off_t)main), 16);
    CHECK_EQ(memcmp(copy, (void *)main, 16), 0);

    struct iovec local = {copy, 8}, remote = {text, 8};
    memset(copy, 0, sizeof copy);
    CHECK_EQ(process_vm_readv(getpid(), &local, 1, &remote, 1, 0), 8);
    printf("read %s\n", copy);
    strcpy(copy, "again");
    CHECK_EQ(process_vm_writev(getpid(), &local, 1, &remote, 1, 0), 8);
    printf("now %s\n", text);
    remote.iov_base = (void *)8;
    CHECK_FAILS(process_vm_readv(getpid(), &local, 1, &remote, 1, 0), EFAULT);

    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(ends[1]);
        CHECK_EQ(read(ends[0], &byte, 1), 0);
        _exit(strcmp(text, "from parent") == 0 ? 23 : 1);
    }
    remote.iov_base = text, remote.iov_len = 12;
    local.iov_base = "from parent", local.iov_len = 12;
    CHECK_EQ(process_vm_writev(child, &local, 1, &remote, 1, 0), 12);
    close(ends[0]);
    close(ends[1]);
    printf("child %d, own %s\n", exit_code_of(child), text);
}
