// Failing execs leave the caller as it was: memory, descriptors, handlers, threads.
// build: -pthread
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

static volatile int counted, stop;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    counted++;
}
static void *spin(void *unused) {
    (void)unused;
    while (!stop) sched_yield();
    return NULL;
}
static void make(const char *name, const char *text, size_t size, int mode) {
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    CHECK_EQ(write(file, text, size), size);
    CHECK_EQ(fchmod(file, mode), 0);
    close(file);
}

int main(int argc, char **argv) {
    (void)argc;
    on_signal(SIGUSR1, handler, 0);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, spin, NULL), 0);
    int kept = open("/dev/null", O_RDONLY | O_CLOEXEC);
    char *arguments[] = {"x", NULL}, *environment[] = {NULL};
    make("plain-file", "text", 4, 0600);
    make("garbage", "\x01\x02\x03garbage", 10, 0700);
    make("truncated", "\x7f" "ELF\x02\x01\x01", 7, 0700);
    char wrong_machine[64] = "\x7f" "ELF\x02\x01\x01";
    wrong_machine[16] = 2, wrong_machine[18] = (char)183, wrong_machine[20] = 1;
    make("other-machine", wrong_machine, 64, 0700);
    make("empty-file", "", 0, 0700);
    CHECK_EQ(mkdir("directory", 0700), 0);
    CHECK_EQ(symlink("circle", "circle"), 0);
    char long_name[5000];
    memset(long_name, 'a', sizeof long_name);
    long_name[4999] = 0;

    CHECK_FAILS(execve("/does/not/exist", arguments, environment), ENOENT);
    CHECK_FAILS(execve("", arguments, environment), ENOENT);
    CHECK_FAILS(execve("plain-file", arguments, environment), EACCES);
    CHECK_FAILS(execve("directory", arguments, environment), EACCES);
    CHECK_FAILS(execve("plain-file/below", arguments, environment), ENOTDIR);
    CHECK_FAILS(execve("circle", arguments, environment), ELOOP);
    CHECK_FAILS(execve(long_name, arguments, environment), ENAMETOOLONG);
    CHECK_FAILS(execve("garbage", arguments, environment), ENOEXEC);
    CHECK_FAILS(execve("truncated", arguments, environment), ENOEXEC);
    CHECK_FAILS(execve("other-machine", arguments, environment), ENOEXEC);
    CHECK_FAILS(execve("empty-file", arguments, environment), ENOEXEC);
    CHECK_FAILS(syscall(SYS_execve, 8L, arguments, environment), EFAULT);
    CHECK_FAILS(syscall(SYS_execve, argv[0], 8L, environment), EFAULT);
    CHECK_FAILS(syscall(SYS_execve, argv[0], arguments, 8L), EFAULT);
    CHECK_FAILS(syscall(SYS_execveat, -1, "", arguments, environment, AT_EMPTY_PATH), EBADF);
    CHECK_FAILS(syscall(SYS_execveat, kept, "", arguments, environment, AT_EMPTY_PATH), EACCES);
    char *huge[] = {"x", malloc(200000), NULL};
    memset(huge[1], 'b', 199999);
    huge[1][199999] = 0;
    CHECK_FAILS(execve(argv[0], huge, environment), E2BIG);

    CHECK(fcntl(kept, F_GETFD) == FD_CLOEXEC);
    raise(SIGUSR1);
    CHECK_EQ(counted, 1);
    stop = 1;
    CHECK_EQ(pthread_join(thread, NULL), 0);
    puts("17 failures, nothing changed");
}
