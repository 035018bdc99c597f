// Handlers that do a lot: fork, wait, create files, exec in a child, and nest, out of an
// asynchronous and a synchronous signal.
#include "check.h"
#include <fcntl.h>

static volatile int sum;
static void handler(int number, siginfo_t *info, void *context) {
    (void)info;
    pid_t child = fork();
    if (child == 0) {
        if (number == SIGUSR1) _exit(10);
        execl("/bin/sh", "sh", "-c", "exit 20", NULL);
        _exit(1);
    }
    sum += exit_code_of(child);
    int file = open("made", O_CREAT | O_WRONLY, 0600);
    CHECK(file >= 0);
    close(file);
    unlink("made");
    if (number == SIGSEGV) ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
    else if (sum < 50) raise(SIGUSR2);
}

int main(void) {
    on_signal(SIGUSR1, handler, 0);
    on_signal(SIGUSR2, handler, 0);
    on_signal(SIGSEGV, handler, 0);
    raise(SIGUSR1);
    printf("sum %d\n", sum);
    // mov (%rax), %eax is two bytes long.
    for (int i = 0; i < 3; i++) asm volatile("mov (%%rax), %%eax" : : "a"(0l) : "memory");
    printf("sum %d\n", sum);
    // A child born in a handler returns from it by itself.
    pid_t parent = getpid();
    raise(SIGUSR1);
    CHECK_EQ(getpid(), parent);
    puts("still the parent");
}
