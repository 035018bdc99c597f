// Ends in the way that its first argument says, after a known number of instructions behind its last
// system call. The second argument is the number of rounds, of two instructions each.
// build: -pthread -Wno-infinite-recursion
#include "../guests/check.h"
#include <pthread.h>

static const char *how;
static long rounds;

// Asked before the rounds begin: how many instructions a comparison of strings takes depends on where they lie.
enum end { RETURNS, EXIT, SEGV, OVERFLOW, UNDEFINED, DIVIDE, ABORT, TERM, KILL, ONE_THREAD, GROUP };
static enum end end;

static enum end end_of(const char *how) {
    static const char *const names[] = {"",      "exit",   "segv", "overflow", "undefined", "divide",
                                        "abort", "term", "kill", "exits",    "exits_group"};
    if (!strncmp(how, "thread_", 7)) how += 7;
    if (!strcmp(how, "exits_last")) return ONE_THREAD;
    for (unsigned i = 1; i < sizeof names / sizeof *names; i++)
        if (!strcmp(how, names[i])) return i;
    return RETURNS;
}

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
    if (end == ONE_THREAD) syscall(SYS_exit, 9);
    if (end == GROUP) syscall(SYS_exit_group, 5);
    if (end == SEGV) *(volatile int *)8 = 1;
    if (end == ABORT) abort();
    return NULL;
}

int main(int argc, char **argv) {
    CHECK_EQ(argc, 3);
    how = argv[1];
    rounds = atol(argv[2]);
    end = end_of(how);
    puts("begun");
    if (!strncmp(how, "thread", 6)) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, in_thread, NULL), 0);
        if (!strcmp(how, "thread_exits_last")) syscall(SYS_exit, 7);
        pthread_join(thread, NULL);
        return 3;
    }
    mark_and_spin();
    if (end == SEGV) *(volatile int *)8 = 1;
    if (end == ABORT) abort();
    if (end == KILL) kill(getpid(), SIGKILL);
    if (end == TERM) raise(SIGTERM);
    if (end == OVERFLOW) return overflow(0);
    if (end == UNDEFINED) __asm__ volatile("ud2");
    if (end == DIVIDE) __asm__ volatile("divl %0" : : "r"(0), "a"(1), "d"(0));
    if (end == EXIT) return 7;
    return 98;
}
