// Ends in the way that its first argument says, after a known number of instructions behind its last
// system call. The second argument is the number of rounds, of two instructions each.
// build: -pthread -Wno-infinite-recursion
#include "../guests/check.h"
#include <pthread.h>

static const char *how;
static long rounds;

// A system call that nothing else here makes, then the rounds.
static void mark_and_spin(void) {
    syscall(SYS_getsid, 0);
    long left = rounds;
    __asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(left) : : "cc");
}

static int overflow(int depth) {
    volatile char room[4000];
    room[depth % 4000] = depth;
    return overflow(depth + 1) + room[0];
}

// The status of the process is that of the thread which ends last.
static void outlive_the_first_thread(void) {
    char path[100], text[500] = "";
    sprintf(path, "/proc/self/task/%d/stat", getpid());
    while (!strstr(text, ") Z ")) {
        FILE *file = fopen(path, "r");
        CHECK(file != NULL && fgets(text, sizeof text, file) != NULL);
        fclose(file);
    }
}

static void *in_thread(void *unused) {
    (void)unused;
    if (!strcmp(how, "thread_exits_last")) outlive_the_first_thread();
    // Until the first thread waits for this one.
    else usleep(100000);
    mark_and_spin();
    if (!strcmp(how, "thread_exits")) syscall(SYS_exit, 9);
    if (!strcmp(how, "thread_exits_last")) syscall(SYS_exit, 9);
    if (!strcmp(how, "thread_exits_group")) syscall(SYS_exit_group, 5);
    if (!strcmp(how, "thread_segv")) *(volatile int *)8 = 1;
    if (!strcmp(how, "thread_abort")) abort();
    return NULL;
}

int main(int argc, char **argv) {
    CHECK_EQ(argc, 3);
    how = argv[1];
    rounds = atol(argv[2]);
    puts("begun");
    if (!strncmp(how, "thread", 6)) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, in_thread, NULL), 0);
        if (!strcmp(how, "thread_exits_last")) syscall(SYS_exit, 7);
        pthread_join(thread, NULL);
        return 3;
    }
    mark_and_spin();
    if (!strcmp(how, "segv")) *(volatile int *)8 = 1;
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "kill")) kill(getpid(), SIGKILL);
    if (!strcmp(how, "term")) raise(SIGTERM);
    if (!strcmp(how, "overflow")) return overflow(0);
    if (!strcmp(how, "undefined")) __asm__ volatile("ud2");
    if (!strcmp(how, "divide")) __asm__ volatile("divl %0" : : "r"(0), "a"(1), "d"(0));
    if (!strcmp(how, "exit")) return 7;
    return 98;
}
