// Limits on memory that leave no room for more: the program still runs code it never ran before,
// takes signals and faults, and opens files; nothing else may need memory from the same budget.
#include "check.h"
#include <fcntl.h>
#include <setjmp.h>
#include <sys/resource.h>

extern char functions[];
asm(".pushsection .text\n .p2align 4\n"
    "functions:\n .set number, 0\n"
    " .rept 5000\n .p2align 4\n mov $number, %eax\n add %edi, %eax\n ret\n .set number, number + 1\n .endr\n"
    ".popsection");

static sigjmp_buf recover;
static void handler(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    siglongjmp(recover, number);
}

static unsigned long virtual_size(void) {
    char text[100] = "";
    int file = open("/proc/self/statm", O_RDONLY);
    CHECK(read(file, text, sizeof text - 1) > 0);
    close(file);
    return strtoul(text, NULL, 10) * 4096;
}

int main(void) {
    on_signal(SIGSEGV, handler, 0);
    on_signal(SIGUSR1, handler, 0);
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_DATA, &limit), 0);
    limit.rlim_cur = 4096;
    CHECK_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
    CHECK_EQ(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = virtual_size();
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    CHECK(mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);

    long sum = 0;
    for (int i = 0; i < 5000; i++) sum += ((int (*)(int))(functions + i * 16))(i);
    printf("sum %ld\n", sum);
    for (volatile int i = 0; i < 20; i++) {
        int got = sigsetjmp(recover, 1);
        if (got == 0) {
            if (i % 2) raise(SIGUSR1);
            *(volatile int *)0 = 0;
        }
        CHECK_EQ(got, i % 2 ? SIGUSR1 : SIGSEGV);
    }
    int file = open("/dev/null", O_RDONLY);
    CHECK(file >= 0);
    puts("ran without more memory");
}
