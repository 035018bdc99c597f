// io_uring: requests that the kernel completes at its own time, in rings that no system call has to look at.
// build: -O1
#include "check.h"
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <sys/uio.h>

static struct ring {
    int descriptor;
    unsigned *sq_flags, *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
} ring;

static int set_up(unsigned flags) {
    struct io_uring_params parameters;
    memset(&parameters, 0, sizeof parameters);
    parameters.flags = flags;
    parameters.sq_thread_idle = 1000;
    ring.descriptor = syscall(SYS_io_uring_setup, 8, &parameters);
    if (ring.descriptor < 0) return 0;
    CHECK(parameters.features & IORING_FEAT_SINGLE_MMAP);
    size_t size = parameters.cq_off.cqes + parameters.cq_entries * sizeof(struct io_uring_cqe);
    size_t queue = parameters.sq_off.array + parameters.sq_entries * sizeof(unsigned);
    if (queue > size) size = queue;
    char *rings = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.descriptor, IORING_OFF_SQ_RING);
    CHECK(rings != MAP_FAILED);
    ring.sqes = mmap(NULL, parameters.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_POPULATE, ring.descriptor, IORING_OFF_SQES);
    CHECK(ring.sqes != MAP_FAILED);
    ring.sq_flags = (unsigned *)(rings + parameters.sq_off.flags);
    ring.sq_tail = (unsigned *)(rings + parameters.sq_off.tail);
    ring.sq_mask = (unsigned *)(rings + parameters.sq_off.ring_mask);
    ring.sq_array = (unsigned *)(rings + parameters.sq_off.array);
    ring.cq_head = (unsigned *)(rings + parameters.cq_off.head);
    ring.cq_tail = (unsigned *)(rings + parameters.cq_off.tail);
    ring.cq_mask = (unsigned *)(rings + parameters.cq_off.ring_mask);
    ring.cqes = (struct io_uring_cqe *)(rings + parameters.cq_off.cqes);
    return 1;
}

static struct io_uring_sqe *request(int operation, int descriptor, void *address, unsigned length, unsigned long data) {
    unsigned tail = *ring.sq_tail, index = tail & *ring.sq_mask;
    struct io_uring_sqe *entry = &ring.sqes[index];
    memset(entry, 0, sizeof *entry);
    entry->opcode = operation;
    entry->fd = descriptor;
    entry->addr = (unsigned long)address;
    entry->len = length;
    entry->user_data = data;
    ring.sq_array[index] = index;
    return entry;
}

static void publish(void) { atomic_store_explicit((atomic_uint *)ring.sq_tail, *ring.sq_tail + 1, memory_order_release); }

static void enter(unsigned submit, unsigned wait) {
    long done = syscall(SYS_io_uring_enter, ring.descriptor, submit, wait, wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
    CHECK_EQ(done, submit);
}

static int is_complete(void) {
    return atomic_load_explicit((atomic_uint *)ring.cq_tail, memory_order_acquire) != *ring.cq_head;
}

// Expects a completion, which is there or comes without any call.
static void expect(unsigned long data, int result) {
    while (!is_complete()) {
        // A thread of the kernel that has fallen asleep.
        if (atomic_load((atomic_uint *)ring.sq_flags) & IORING_SQ_NEED_WAKEUP)
            syscall(SYS_io_uring_enter, ring.descriptor, 0, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0);
    }
    const struct io_uring_cqe *entry = &ring.cqes[*ring.cq_head & *ring.cq_mask];
    CHECK_EQ(entry->user_data, data);
    CHECK_EQ(entry->res, result);
    atomic_store_explicit((atomic_uint *)ring.cq_head, *ring.cq_head + 1, memory_order_release);
}

int main(void) {
    if (!set_up(0)) {
        puts("no io_uring here");
        return 0;
    }
    request(IORING_OP_NOP, -1, NULL, 0, 1);
    publish();
    enter(1, 1);
    expect(1, 0);

    static char text[64], other[64];
    int file = open("file", O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(file >= 0);
    request(IORING_OP_WRITE, file, "written by the kernel", 21, 2);
    publish();
    enter(1, 1);
    expect(2, 21);
    struct iovec vectors[] = {{text, 8}, {other, 13}};
    request(IORING_OP_READV, file, vectors, 2, 3);
    publish();
    enter(1, 1);
    expect(3, 21);
    CHECK_EQ(memcmp(text, "written ", 8), 0);
    CHECK_EQ(memcmp(other, "by the kernel", 13), 0);
    puts("files");

    // Bytes that come later, into memory that was looked at before, without any call in between.
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    for (int round = 0; round < 5; round++) {
        memset(text, 0, sizeof text);
        request(IORING_OP_READ, ends[0], text, sizeof text, 4);
        publish();
        enter(1, 0);
        CHECK(!is_complete() && text[0] == 0);
        pid_t child = fork();
        if (child == 0) {
            usleep(5000);
            char line[32];
            int length = snprintf(line, sizeof line, "round %d", round);
            CHECK_EQ(write(ends[1], line, length), length);
            _exit(0);
        }
        expect(4, 7);
        CHECK_EQ(memcmp(text, "round ", 6), 0);
        CHECK_EQ(text[6], '0' + round);
        CHECK_EQ(exit_code_of(child), 0);
    }
    puts("later");

    struct __kernel_timespec timeout = {0, 2000000};
    request(IORING_OP_TIMEOUT, -1, &timeout, 1, 5);
    publish();
    enter(1, 0);
    expect(5, -ETIME);
    request(IORING_OP_READ, 12345, text, 1, 6);
    publish();
    enter(1, 1);
    expect(6, -EBADF);

    // Code, written by the kernel.
    unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    for (int value = 0; value < 20; value++) {
        unsigned char bytes[6] = {0xb8, value, 0, 0, 0, 0xc3};
        CHECK_EQ(pwrite(file, bytes, 6, 0), 6);
        request(IORING_OP_READ, file, code, 6, 7);
        publish();
        enter(1, 1);
        expect(7, 6);
        CHECK_EQ(((int (*)(void))code)(), value);
    }
    puts("code");

    // A thread of the kernel that looks for requests itself.
    close(ring.descriptor);
    if (set_up(IORING_SETUP_SQPOLL)) {
        for (int round = 0; round < 3; round++) {
            struct io_uring_sqe *entry = request(IORING_OP_READ, file, other, 6, 8);
            entry->off = 0;
            publish();
            expect(8, 6);
            CHECK_EQ((unsigned char)other[0], 0xb8);
            other[0] = 0;
        }
    }
    puts("polled");
}
