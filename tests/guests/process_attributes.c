// What a process is started with and can read back: nothing of whoever started it on the program's behalf shows.
// build: -O1 -pthread
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static int death_signal(void) {
    int number = -1;
    CHECK_EQ(prctl(PR_GET_PDEATHSIG, &number), 0);
    return number;
}

// The value of a line of /proc/self/status.
static const char *status(const char *name) {
    static char line[256];
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file);
    size_t length = strlen(name);
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, name, length) && line[length] == ':') {
            fclose(file);
            line[strcspn(line, "\n")] = 0;
            return line + length + 2;
        }
    fclose(file);
    return "missing";
}

// The n-th number behind the name in /proc/self/stat, as the manual page counts.
static long number_of(int n) {
    char line[2048] = "";
    FILE *file = fopen("/proc/thread-self/stat", "r");
    CHECK(file && fgets(line, sizeof line, file));
    fclose(file);
    char *at = strrchr(line, ')') + 1;
    for (; n > 3; n--) at = strchr(at + 1, ' ');
    return atol(at);
}

static void ignore(int number) { (void)number; }

static void *in_thread(void *unused) {
    (void)unused;
    CHECK_EQ(death_signal(), 0);
    CHECK_EQ(prctl(PR_SET_PDEATHSIG, SIGKILL), 0);
    CHECK_EQ(death_signal(), SIGKILL);
    return NULL;
}

int main(int count, char **arguments) {
    if (count > 1) {
        // The one that was executed: what it had set is still set.
        CHECK_EQ(death_signal(), atoi(arguments[1]));
        CHECK_EQ(atoi(status("PPid")), getppid());
        return 0;
    }
    printf("death signal %d\n", death_signal());
    printf("dumpable %d, new privileges %d, reaper %d\n", prctl(PR_GET_DUMPABLE),
           prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), ({
               int reaper = -1;
               prctl(PR_GET_CHILD_SUBREAPER, &reaper);
               reaper;
           }));
    printf("slack %d, personality %#x, nice %d, policy %d\n", prctl(PR_GET_TIMERSLACK),
           personality(0xffffffff), getpriority(PRIO_PROCESS, 0), sched_getscheduler(0));
    printf("huge pages %d, seccomp %s, keep %d, bits %#x\n", prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0),
           status("Seccomp"), prctl(PR_GET_KEEPCAPS), prctl(PR_GET_SECUREBITS));
    for (int resource = 0; resource < RLIM_NLIMITS; resource++) {
        struct rlimit limit;
        CHECK_EQ(getrlimit(resource, &limit), 0);
        printf("limit %d: %ld %ld\n", resource, limit.rlim_cur, limit.rlim_max);
    }
    FILE *score = fopen("/proc/self/oom_score_adj", "r");
    int adjustment = -1;
    CHECK(score && fscanf(score, "%d", &adjustment) == 1);
    fclose(score);
    printf("score %d\n", adjustment);

    printf("blocked %s, ignored %s, ", status("SigBlk"), status("SigIgn"));
    printf("caught %s\n", status("SigCgt"));
    signal(SIGUSR1, ignore);
    signal(SIGSEGV, ignore);
    signal(SIGUSR2, SIG_IGN);
    signal(SIGTRAP, SIG_IGN);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGILL);
    sigaddset(&blocked, SIGALRM);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    printf("blocked %s, ", status("SigBlk"));
    printf("ignored %s, ", status("SigIgn"));
    printf("caught %s\n", status("SigCgt"));
    CHECK_EQ(atoi(status("PPid")), getppid());
    CHECK_EQ(number_of(4), getppid());
    printf("blocked %ld, ignored %ld, caught %ld\n", number_of(32), number_of(33), number_of(34));
    printf("tracer %s\n", status("TracerPid"));
    printf("parent %d\n", getppid());
    // The parent, whoever it is, can be reached.
    CHECK_EQ(kill(getppid(), 0), 0);

    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, in_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(death_signal(), 0);
    CHECK_FAILS(prctl(PR_SET_PDEATHSIG, 65), EINVAL);
    CHECK_EQ(prctl(PR_SET_PDEATHSIG, 0), 0);
    CHECK_EQ(death_signal(), 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK_EQ(death_signal(), 0);
        CHECK_EQ(prctl(PR_SET_PDEATHSIG, SIGKILL), 0);
        CHECK_EQ(death_signal(), SIGKILL);
        execl("/proc/self/exe", "again", "9", NULL);
        _exit(1);
    }
    CHECK_EQ(exit_code_of(child), 0);
    CHECK_EQ(prctl(PR_SET_PDEATHSIG, SIGTERM), 0);
    CHECK_EQ(death_signal(), SIGTERM);
    unsigned size = 0;
    CHECK_EQ(prctl(PR_SET_MM, PR_SET_MM_MAP_SIZE, &size, 0, 0), 0);
    CHECK(size >= 96);
    execl("/proc/self/exe", "again", "15", NULL);
}
