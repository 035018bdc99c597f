// Code that the kernel writes on the program's behalf: read, pread, readv, recv, process_vm_writev
// and /proc/self/mem into an executable page; every change counts at the next call.
#include "check.h"
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

static unsigned char fresh[6];
static const unsigned char *make(int value) {
    fresh[0] = 0xb8;
    memcpy(fresh + 1, &value, 4);
    fresh[5] = 0xc3;
    return fresh;
}

int main(void) {
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    int (*function)(void) = (int (*)(void))page;
    memcpy(page, make(1), 6);
    CHECK_EQ(function(), 1);
    int ends[2], sockets[2], memory = open("/proc/self/mem", O_RDWR), file = memfd_create("source", 0);
    CHECK(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0 && memory >= 0);
    for (int i = 0; i < 300; i++) {
        struct iovec into = {page, 6}, from = {fresh, 6};
        make(i);
        switch (i % 6) {
        case 0: CHECK_EQ(write(ends[1], fresh, 6), 6); CHECK_EQ(read(ends[0], page, 6), 6); break;
        case 1: CHECK_EQ(pwrite(file, fresh, 6, 0), 6); CHECK_EQ(pread(file, page, 6, 0), 6); break;
        case 2: CHECK_EQ(write(ends[1], fresh, 6), 6); CHECK_EQ(readv(ends[0], &into, 1), 6); break;
        case 3: CHECK_EQ(send(sockets[0], fresh, 6, 0), 6); CHECK_EQ(recv(sockets[1], page, 6, 0), 6); break;
        case 4: CHECK_EQ(process_vm_writev(getpid(), &from, 1, &into, 1, 0), 6); break;
        case 5: CHECK_EQ(pwrite(memory, fresh, 6, (off_t)page), 6); break;
        }
        CHECK_EQ(function(), i);
        CHECK_EQ(function(), i);
    }
    // Through /proc/self/mem even into code that is not writable, as debuggers do.
    CHECK_EQ(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(pwrite(memory, make(i * 7), 6, (off_t)page), 6);
        CHECK_EQ(function(), i * 7);
    }
    // But an ordinary read into it fails, and changes nothing.
    CHECK_EQ(write(ends[1], make(9999), 6), 6);
    CHECK_FAILS(read(ends[0], page, 6), EFAULT);
    CHECK_EQ(function(), 49 * 7);
    puts("every write counted");
}
