// Sockets: a TCP server and client in threads, UNIX sockets that pass descriptors and
// credentials, epoll over all of them, and scatter-gather messages.
// build: -pthread
#include "check.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

static struct sockaddr_in address;

static void *client(void *argument) {
    int self = (int)(long)argument;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    char text[100];
    int length = sprintf(text, "client %d", self);
    CHECK_EQ(send(fd, text, length, 0), length);
    CHECK_EQ(shutdown(fd, SHUT_WR), 0);
    ssize_t got = recv(fd, text, sizeof text, MSG_WAITALL);
    CHECK_EQ(got, length);
    CHECK(text[0] == 'C');
    close(fd);
    return NULL;
}

int main(void) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK_EQ(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQ(listen(listener, 10), 0);
    socklen_t size = sizeof address;
    CHECK_EQ(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    pthread_t threads[5];
    for (long i = 0; i < 5; i++) CHECK_EQ(pthread_create(&threads[i], NULL, client, (void *)i), 0);
    int epoll = epoll_create1(0), served = 0;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener}, events[8];
    CHECK_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event), 0);
    while (served < 5) {
        int ready = epoll_wait(epoll, events, 8, 20000);
        CHECK(ready > 0);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                event.data.fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                CHECK(event.data.fd >= 0);
                CHECK_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event), 0);
                continue;
            }
            char text[100];
            ssize_t got = recv(fd, text, sizeof text, 0);
            if (got < 0) {
                CHECK_EQ(errno, EAGAIN);
                continue;
            }
            for (ssize_t j = 0; j < got; j++)
                if (text[j] >= 'a' && text[j] <= 'z') text[j] -= 32;
            if (got > 0) CHECK_EQ(send(fd, text, got, MSG_NOSIGNAL), got);
            else close(fd), served++;
        }
    }
    for (int i = 0; i < 5; i++) pthread_join(threads[i], NULL);
    puts("five clients");

    int pair[2], on = 1;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
    CHECK_EQ(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    pid_t child = fork();
    if (child == 0) {
        int ends[2];
        CHECK_EQ(pipe(ends), 0);
        CHECK_EQ(write(ends[1], "through a passed pipe", 21), 21);
        struct iovec parts[2] = {{"two ", 4}, {"parts", 5}};
        char control[CMSG_SPACE(sizeof(int))] = {0};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2, .msg_control = control, .msg_controllen = sizeof control};
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &ends[0], sizeof(int));
        CHECK_EQ(sendmsg(pair[0], &message, 0), 9);
        _exit(0);
    }
    char text[50] = "", control[200];
    struct iovec part = {text, sizeof text - 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    CHECK_EQ(recvmsg(pair[1], &message, 0), 9);
    printf("%s\n", text);
    int received = -1;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_type == SCM_RIGHTS) memcpy(&received, CMSG_DATA(header), sizeof(int));
        if (header->cmsg_type == SCM_CREDENTIALS) CHECK_EQ(((struct ucred *)CMSG_DATA(header))->pid, child);
    }
    char data[30] = "";
    CHECK_EQ(read(received, data, 21), 21);
    puts(data);
    CHECK_EQ(exit_code_of(child), 0);
}
