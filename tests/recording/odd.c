// System calls that write memory in odd ways, odd places, or both. Each result is shown right afterwards.
// build: -pthread
#include "show.h"
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/futex.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>

#define PAGE 4096

// Memory that nobody has touched.
static char *fresh(int pages) {
    char *memory =
        mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static char pattern[20000];

static void fill(int pipe_end, int length) {
    CHECK_EQ(write(pipe_end, pattern, length), length);
}

static void vectors(void) {
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    char *memory = fresh(4);
    fill(ends[1], 20);
    struct iovec parts[] = {
        {memory + 1, 3}, {memory + PAGE - 1, 2}, {NULL, 0}, {memory + 3 * PAGE - 5, 10}, {memory + 100, 5},
    };
    CHECK_EQ(readv(ends[0], parts, 5), 20);
    show("readv, start", memory, 8);
    show("readv, border", memory + PAGE - 4, 8);
    show("readv, other border", memory + 3 * PAGE - 8, 16);
    show("readv, back", memory + 98, 9);

    // The same place twice: the last one counts.
    fill(ends[1], 30);
    struct iovec same[] = {{memory + 200, 10}, {memory + 205, 10}, {memory + 195, 10}};
    CHECK_EQ(readv(ends[0], same, 3), 30);
    show("readv, overlapping", memory + 190, 30);

    // A bad pointer in the middle: what came before it was written.
    fill(ends[1], 30);
    struct iovec bad[] = {{memory + 300, 10}, {(void *)8, 10}, {memory + 320, 10}};
    ssize_t got = readv(ends[0], bad, 3);
    printf("readv, bad pointer: %zd\n", got);
    show("readv, bad pointer", memory + 295, 40);
    char rest[100];
    CHECK(read(ends[0], rest, sizeof rest) > 0);

    // The kernel may write half of this before it notices.
    CHECK_EQ(mprotect(memory + 2 * PAGE, PAGE, PROT_NONE), 0);
    fill(ends[1], 100);
    got = read(ends[0], memory + 2 * PAGE - 30, 100);
    printf("read, half of it: %zd\n", got);
    show("read, half of it", memory + 2 * PAGE - 40, 40);
}

static void messages(void) {
    int pair[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
    int on = 1;
    CHECK_EQ(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);

    // Data, a descriptor and credentials in one message.
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr header;
    } sent = {0};
    struct iovec data = {pattern, 50};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = sent.bytes,
                             .msg_controllen = sizeof sent.bytes};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &pair[1], sizeof(int));
    CHECK_EQ(sendmsg(pair[1], &message, 0), 50);

    char *memory = fresh(3);
    struct iovec places[] = {{memory + 7, 13}, {memory + PAGE - 3, 20}, {memory + 50, 5}};
    struct msghdr received = {.msg_iov = places, .msg_iovlen = 3, .msg_control = memory + 2 * PAGE,
                              .msg_controllen = 200, .msg_name = memory + 600, .msg_namelen = 110};
    CHECK_EQ(recvmsg(pair[0], &received, 0), 38);
    CHECK(received.msg_flags & MSG_TRUNC);
    show("recvmsg, data", memory, 60);
    show("recvmsg, border", memory + PAGE - 8, 32);
    // Process ids and descriptor numbers differ from run to run: their place in memory is what counts.
    printf("recvmsg, control: %zu bytes\n", received.msg_controllen);
    show("recvmsg, control~", memory + 2 * PAGE, 80);

    // Several messages at once, one of them empty.
    char *many = fresh(2);
    for (int i = 0; i < 3; i++) CHECK_EQ(send(pair[1], pattern + i * 100, i * 10, 0), i * 10);
    struct iovec vectors[3];
    struct mmsghdr headers[3];
    memset(headers, 0, sizeof headers);
    for (int i = 0; i < 3; i++) {
        vectors[i] = (struct iovec){many + PAGE - 15 + i * 5, 10 + i};
        headers[i].msg_hdr = (struct msghdr){.msg_iov = &vectors[i], .msg_iovlen = 1};
    }
    CHECK_EQ(recvmmsg(pair[0], headers, 3, 0, NULL), 3);
    printf("recvmmsg: %u %u %u\n", headers[0].msg_len, headers[1].msg_len, headers[2].msg_len);
    show("recvmmsg", many + PAGE - 20, 40);

    char *option = fresh(1);
    socklen_t length = 3;
    CHECK_EQ(getsockopt(pair[0], SOL_SOCKET, SO_TYPE, option + 1, &length), 0);
    show("getsockopt, short", option, 8);
}

static void pipes(void) {
    int first[2], second[2];
    CHECK_EQ(pipe(first), 0);
    CHECK_EQ(pipe(second), 0);
    // The pipe holds this program's own pages: what is changed afterwards comes out changed.
    char *page = fresh(2);
    memset(page, 'a', 2 * PAGE);
    struct iovec given[] = {{page + 10, PAGE}, {page, 5}};
    CHECK_EQ(vmsplice(first[1], given, 2, 0), PAGE + 5);
    memset(page + 20, 'b', 10);
    CHECK_EQ(tee(first[0], second[1], 100, 0), 100);
    char *memory = fresh(3);
    CHECK_EQ(read(first[0], memory + 3, PAGE + 5), PAGE + 5);
    show("read of vmspliced pages", memory, 40);
    show("read of vmspliced pages, end", memory + PAGE - 4, 20);
    CHECK_EQ(read(second[0], memory + 2 * PAGE, 100), 100);
    show("read of teed pages", memory + 2 * PAGE, 40);

    // A pipe's contents into memory, by mapping it from the other side.
    fill(first[1], 60);
    char *place = fresh(2);
    struct iovec taken = {place + PAGE - 25, 60};
    CHECK_EQ(vmsplice(first[0], &taken, 1, 0), 60);
    show("vmsplice from a pipe", place + PAGE - 30, 70);
}

static void files(void) {
    int file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0);
    CHECK_EQ(write(file, pattern, 3 * PAGE), 3 * PAGE);
    char *mapped = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(mapped != MAP_FAILED);
    show("mapped file", mapped + PAGE - 8, 16);
    // None of these names an address in the mapping, and all of them change it.
    CHECK_EQ(pwrite(file, "written", 7, PAGE - 3), 7);
    show("mapped file, written", mapped + PAGE - 8, 16);
    off_t from = 5, to = 2 * PAGE - 4;
    CHECK_EQ(copy_file_range(file, &from, file, &to, 20, 0), 20);
    show("mapped file, copied into", mapped + 2 * PAGE - 8, 32);
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    fill(ends[1], 40);
    off_t offset = 100;
    CHECK_EQ(splice(ends[0], NULL, file, &offset, 40, 0), 40);
    show("mapped file, spliced into", mapped + 95, 50);
    CHECK_EQ(ftruncate(file, PAGE + 10), 0);
    CHECK_EQ(ftruncate(file, 3 * PAGE), 0);
    show("mapped file, cut and grown", mapped + PAGE, 40);
    // Into a mapping of the very file that is read.
    CHECK_EQ(pread(file, mapped + 2 * PAGE - 10, 20, 0), 20);
    show("read into its own mapping", mapped + 2 * PAGE - 12, 24);
    struct iovec parts[] = {{mapped + 50, 3}, {mapped + 2 * PAGE + 50, 30}};
    CHECK_EQ(preadv2(file, parts, 2, 200, 0), 33);
    show("preadv2", mapped + 2 * PAGE + 45, 40);
    unlink("file");
}

static void itself(void) {
    char *memory = fresh(4);
    struct iovec local[] = {{pattern + 1, 20}, {pattern + 500, 20}};
    struct iovec remote[] = {{memory + PAGE - 7, 15}, {memory + 3, 25}};
    CHECK_EQ(process_vm_writev(getpid(), local, 2, remote, 2, 0), 40);
    show("process_vm_writev to itself", memory, 30);
    show("process_vm_writev to itself, border", memory + PAGE - 8, 20);
    CHECK_EQ(process_vm_readv(getpid(), &(struct iovec){memory + 2 * PAGE - 3, 9}, 1,
                              &(struct iovec){pattern + 40, 9}, 1, 0), 9);
    show("process_vm_readv from itself", memory + 2 * PAGE - 4, 12);

    int self = open("/proc/self/mem", O_RDWR);
    CHECK(self >= 0);
    CHECK_EQ(pwrite(self, "through proc", 12, (off_t)(memory + 3 * PAGE - 6)), 12);
    show("/proc/self/mem", memory + 3 * PAGE - 8, 16);
    close(self);

    // The kernel adds to the second word.
    int *words = (int *)(memory + 3 * PAGE + 100);
    CHECK_EQ(syscall(SYS_futex, words, FUTEX_WAKE_OP, 0, 0, words + 1,
                     FUTEX_OP(FUTEX_OP_ADD, 77, FUTEX_OP_CMP_EQ, 0)), 0);
    show("futex operation", words, 8);

    char *moved = mremap(memory, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED);
    show("moved", moved + PAGE - 8, 20);
    CHECK_EQ(madvise(moved, PAGE, MADV_DONTNEED), 0);
    show("dropped", moved, 30);
    CHECK_EQ(pread(open("/proc/self/comm", O_RDONLY), moved + 3, 2, 0), 2);
    show("written after the drop", moved, 8);
}

static void control(void) {
    // Nothing in the request tells that the kernel follows the pointer.
    struct ethtool_value *value = (void *)(fresh(2) + PAGE - 4);
    int command = ETHTOOL_GLINK;
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(write(ends[1], &command, 4), 4);
    CHECK_EQ(read(ends[0], value, 4), 4);
    struct ifreq request = {.ifr_name = "lo", .ifr_data = (void *)value};
    int socket_ = socket(AF_INET, SOCK_DGRAM, 0);
    int result = ioctl(socket_, SIOCETHTOOL, &request);
    printf("SIOCETHTOOL: %d\n", result < 0 ? errno : result);
    show("SIOCETHTOOL", value, 8);

    // The same, with a vector of answers. The names are those of newer kernels.
    struct {
        uint64_t size, flags, start, end, walk_end, vector, vector_length, most;
        uint64_t inverted, mask, any_of, returned;
    } scan = {sizeof scan, 0};
    char *pages = fresh(8);
    pages[0] = pages[3 * PAGE] = pages[4 * PAGE] = 1;
    char *answers = fresh(1);
    scan.start = (uint64_t)pages, scan.end = scan.start + 8 * PAGE;
    scan.vector = (uint64_t)answers + 24, scan.vector_length = 10;
    scan.mask = scan.returned = 1 << 3;  // PAGE_IS_PRESENT
    int pagemap = open("/proc/self/pagemap", O_RDONLY);
    result = ioctl(pagemap, _IOWR('f', 16, scan), &scan);
    printf("PAGEMAP_SCAN: %d\n", result < 0 ? -1 : 1);
    show("PAGEMAP_SCAN~", answers, 120);

    char *name = fresh(1);
    CHECK_EQ(prctl(PR_GET_NAME, name + 1), 0);
    show("PR_GET_NAME", name, 20);
    struct utsname *system = (void *)(fresh(1) + 1);
    CHECK_EQ(uname(system), 0);
    show("uname", system, 390);
}

int main(void) {
    for (int i = 0; i < (int)sizeof pattern; i++) pattern[i] = i * 7 + i / 256;
    vectors();
    messages();
    pipes();
    files();
    itself();
    control();
}
