// The kernel's asynchronous I/O: contexts, submissions, events by the call and straight from the
// ring that the kernel maps, an eventfd, polls, cancelling, and what fails.
#include "check.h"
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>

// What the kernel keeps at the address that names a context; libaio reads it.
struct ring {
    unsigned id, number, head, tail, magic, features, incompatible_features, header_length;
    struct io_event events[];
};

static long io_setup(unsigned events, aio_context_t *context) { return syscall(SYS_io_setup, events, context); }
static long io_destroy(aio_context_t context) { return syscall(SYS_io_destroy, context); }
static long io_submit(aio_context_t context, long count, struct iocb **blocks) {
    return syscall(SYS_io_submit, context, count, blocks);
}
static long io_getevents(aio_context_t context, long least, long most, struct io_event *events,
                         struct timespec *timeout) {
    return syscall(SYS_io_getevents, context, least, most, events, timeout);
}
static long io_cancel(aio_context_t context, struct iocb *block, struct io_event *event) {
    return syscall(SYS_io_cancel, context, block, event);
}

static struct iocb request(int command, int file, void *buffer, size_t size, long offset, long data) {
    return (struct iocb){.aio_lio_opcode = command, .aio_fildes = file, .aio_buf = (uintptr_t)buffer,
                         .aio_nbytes = size, .aio_offset = offset, .aio_data = data};
}

#define COUNT 16
#define SIZE 4096
static char written[COUNT][SIZE], read_back[COUNT][SIZE];

// Submits `COUNT` transfers and waits for all of them.
static void transfer(aio_context_t context, int command, int file, char (*buffers)[SIZE]) {
    struct iocb blocks[COUNT], *pointers[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = request(command, file, buffers[i], SIZE, (long)i * SIZE, 1000 + i);
        pointers[i] = &blocks[i];
    }
    int submitted = 0;
    while (submitted < COUNT) {
        long count = io_submit(context, COUNT - submitted, pointers + submitted);
        CHECK(count > 0);
        submitted += count;
    }
    int seen[COUNT] = {0}, done = 0;
    while (done < COUNT) {
        struct io_event events[COUNT];
        long count = io_getevents(context, 1, COUNT, events, NULL);
        CHECK(count > 0);
        for (int i = 0; i < count; i++) {
            long number = (long)events[i].data - 1000;
            CHECK(number >= 0 && number < COUNT && !seen[number]++);
            CHECK_EQ(events[i].obj, (uintptr_t)&blocks[number]);
            CHECK_EQ(events[i].res, SIZE);
            CHECK_EQ(events[i].res2, 0);
        }
        done += count;
    }
}

int main(void) {
    aio_context_t first = 0, second = 0;
    CHECK_EQ(io_setup(64, &first), 0);
    CHECK_EQ(io_setup(8, &second), 0);
    CHECK(first && second && first != second);
    struct ring *ring = (struct ring *)first;
    CHECK_EQ(ring->magic, 0xa10a10a1);
    CHECK(ring->number >= 64 && ring->header_length == sizeof *ring);
    CHECK_EQ(ring->head, ring->tail);

    int file = open("file", O_CREAT | O_RDWR | O_TRUNC, 0600);
    CHECK(file >= 0);
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < SIZE; j++) written[i][j] = i * 31 + j;
    transfer(first, IOCB_CMD_PWRITE, file, written);
    CHECK_EQ(lseek(file, 0, SEEK_END), sizeof written);
    transfer(first, IOCB_CMD_PREAD, file, read_back);
    CHECK_EQ(memcmp(written, read_back, sizeof written), 0);
    puts("written and read");

    // The other context: an event announced by an eventfd and taken from the ring, as libaio does.
    int announced = eventfd(0, 0);
    char text[8] = "";
    struct iocb block = request(IOCB_CMD_PREAD, file, text, 4, 33, 7), *pointer = &block;
    block.aio_flags = IOCB_FLAG_RESFD, block.aio_resfd = announced;
    CHECK_EQ(io_submit(second, 1, &pointer), 1);
    uint64_t count;
    CHECK_EQ(read(announced, &count, sizeof count), sizeof count);
    CHECK_EQ(count, 1);
    CHECK_EQ(memcmp(text, written[0] + 33, 4), 0);
    ring = (struct ring *)second;
    unsigned head = ring->head;
    CHECK(head != __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE));
    CHECK_EQ(ring->events[head].data, 7);
    CHECK_EQ(ring->events[head].res, 4);
    __atomic_store_n(&ring->head, (head + 1) % ring->number, __ATOMIC_RELEASE);
    struct timespec none = {0}, soon = {.tv_nsec = 20000000};
    struct io_event event;
    CHECK_EQ(io_getevents(second, 0, 1, &event, &none), 0);
    CHECK_EQ(io_getevents(second, 1, 1, &event, &soon), 0);
    puts("taken from the ring");

    // A poll completes when there is something, and a cancelled one at once.
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    block = request(IOCB_CMD_POLL, ends[0], (void *)POLLIN, 0, 0, 8);
    block.aio_buf = POLLIN;
    CHECK_EQ(io_submit(second, 1, &pointer), 1);
    CHECK_EQ(io_getevents(second, 0, 1, &event, &none), 0);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(io_getevents(second, 1, 1, &event, NULL), 1);
    CHECK_EQ(event.data, 8);
    CHECK_EQ(event.res & POLLIN, POLLIN);
    CHECK_EQ(read(ends[0], text, 8), 1);
    CHECK_EQ(io_submit(second, 1, &pointer), 1);
    CHECK_FAILS(io_cancel(second, pointer, &event), EINPROGRESS);
    CHECK_EQ(io_getevents(second, 1, 1, &event, NULL), 1);
    printf("cancelled poll: %lld\n", (long long)event.res);

    // Errors: of the submission, and of the transfer.
    block = request(99, file, text, 1, 0, 0);
    CHECK_FAILS(io_submit(first, 1, &pointer), EINVAL);
    block = request(IOCB_CMD_PREAD, -1, text, 1, 0, 0);
    CHECK_FAILS(io_submit(first, 1, &pointer), EBADF);
    CHECK_FAILS(io_submit(first, -1, &pointer), EINVAL);
    CHECK_EQ(io_submit(first, 0, &pointer), 0);
    CHECK_FAILS(io_submit(first, 1, (struct iocb **)8), EFAULT);
    block = request(IOCB_CMD_PREAD, file, (void *)8, 100, 0, 9);
    CHECK_EQ(io_submit(first, 1, &pointer), 1);
    CHECK_EQ(io_getevents(first, 1, 1, &event, NULL), 1);
    CHECK_EQ(event.res, -EFAULT);
    block = request(IOCB_CMD_PREAD, file, text, 8, sizeof written - 3, 10);
    CHECK_EQ(io_submit(first, 1, &pointer), 1);
    CHECK_EQ(io_getevents(first, 1, 1, &event, NULL), 1);
    CHECK_EQ(event.res, 3);
    CHECK_FAILS(io_setup(0, &(aio_context_t){0}), EINVAL);
    CHECK_FAILS(io_setup(1, &(aio_context_t){1}), EINVAL);
    CHECK_FAILS(io_setup(1, (aio_context_t *)8), EFAULT);
    puts("errors");

    // A child has no contexts.
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK_FAILS(io_getevents(first, 0, 1, &event, &none), EINVAL);
        _exit(5);
    }
    CHECK_EQ(exit_code_of(child), 5);

    CHECK_EQ(io_destroy(first), 0);
    CHECK_FAILS(io_destroy(first), EINVAL);
    CHECK_FAILS(io_submit(first, 0, &pointer), EINVAL);
    CHECK_EQ(io_destroy(second), 0);
    CHECK_FAILS(io_destroy(second), EINVAL);
    CHECK_FAILS(io_destroy(0), EINVAL);
    puts("destroyed");
}
