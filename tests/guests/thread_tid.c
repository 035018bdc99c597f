// Thread ids: the first thread's is the process's; set_tid_address returns the caller's and makes
// the kernel clear the word and wake its waiters when the thread ends.
// build: -pthread
#include "check.h"
#include <linux/futex.h>
#include <pthread.h>

static volatile int word = 1;
static volatile int tid_seen;

static void *work(void *unused) {
    (void)unused;
    tid_seen = gettid();
    CHECK(gettid() != getpid());
    CHECK_EQ(syscall(SYS_set_tid_address, &word), gettid());
    // Not through the C library, which relies on its own word: the thread just ends.
    syscall(SYS_exit, 0);
    return NULL;
}

int main(void) {
    CHECK_EQ(gettid(), getpid());
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, work, NULL), 0);
    while (word) syscall(SYS_futex, &word, FUTEX_WAIT, 1, NULL);
    // The id is free once the thread is really gone; until then the call may still succeed.
    while (syscall(SYS_tgkill, getpid(), tid_seen, 0) == 0) usleep(100);
    CHECK_EQ(errno, ESRCH);
    pid_t child = fork();
    if (child == 0) _exit(gettid() == getpid() ? 0 : 1);
    CHECK_EQ(exit_code_of(child), 0);
    puts("ids right, word cleared");
    exit(0);
}
