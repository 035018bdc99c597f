// What a process may ask about itself stays itself: ids, limits, affinity, umask, personality,
// resource usage, uname, and the parent-child relation.
#include "check.h"
#include <sched.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>

int main(void) {
    CHECK_EQ(getpid(), syscall(SYS_getpid));
    struct utsname name;
    CHECK_EQ(uname(&name), 0);
    printf("%s %s\n", name.sysname, name.machine);
    umask(027);
    CHECK_EQ(umask(022), 027);
    cpu_set_t set;
    CPU_ZERO(&set);
    CHECK_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    CHECK(CPU_COUNT(&set) >= 1);
    struct rusage usage;
    CHECK_EQ(getrusage(RUSAGE_SELF, &usage), 0);
    CHECK(usage.ru_maxrss > 0);
    struct timespec cpu1, cpu2;
    CHECK_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu1), 0);
    for (volatile int i = 0; i < 1000000; i++) {}
    CHECK_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu2), 0);
    CHECK(cpu2.tv_sec > cpu1.tv_sec || cpu2.tv_nsec > cpu1.tv_nsec);
    CHECK_EQ(prctl(PR_GET_DUMPABLE), 1);
    CHECK_EQ(prctl(PR_SET_KEEPCAPS, 0), 0);
    CHECK_EQ(getpriority(PRIO_PROCESS, 0), nice(0));
    CHECK_EQ(sched_getscheduler(0), SCHED_OTHER);
    printf("personality %#x\n", personality(0xffffffff) & ~ADDR_NO_RANDOMIZE);
    struct rlimit limit;
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        CHECK_EQ(getrlimit(i, &limit), 0);
        if (i == RLIMIT_STACK || i == RLIMIT_AS || i == RLIMIT_NOFILE || i == RLIMIT_DATA)
            printf("limit %d: %llu %llu\n", i, (unsigned long long)limit.rlim_cur,
                   (unsigned long long)limit.rlim_max);
    }
    printf("dumpable, ids and times right\n");
}
