// The legacy vsyscall page, which old static programs call: executable, usually not readable, and
// outside every mapping of the program's half.
#include "check.h"
#include <setjmp.h>
#include <sys/time.h>
#include <time.h>

static sigjmp_buf recover;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    siglongjmp(recover, 1);
}

int main(void) {
    on_signal(SIGSEGV, handler, 0);
    if (sigsetjmp(recover, 1)) {
        puts("this kernel has no vsyscall page");
        return 0;
    }
    time_t (*old_time)(time_t *) = (time_t(*)(time_t *))0xffffffffff600400;
    int (*old_gettimeofday)(struct timeval *, void *) = (int (*)(struct timeval *, void *))0xffffffffff600000;
    int (*old_getcpu)(unsigned *, unsigned *, void *) = (int (*)(unsigned *, unsigned *, void *))0xffffffffff600800;
    for (int i = 0; i < 10; i++) {
        time_t now = old_time(NULL);
        CHECK(labs(now - time(NULL)) <= 2);
        struct timeval value;
        CHECK_EQ(old_gettimeofday(&value, NULL), 0);
        CHECK(labs(value.tv_sec - now) <= 2);
        unsigned cpu = 9999, node;
        CHECK_EQ(old_getcpu(&cpu, &node, NULL), 0);
        CHECK(cpu < 9999);
    }
    puts("the vsyscall page works");
    if (sigsetjmp(recover, 1) == 0) {
        ((void (*)(void))0xffffffffff600c00)();
        puts("beyond its calls: returned");
    } else puts("beyond its calls: fault");
}
