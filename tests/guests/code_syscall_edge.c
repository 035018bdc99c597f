// A system call as the last bytes of a mapping, in code made at run time, and one whose return
// address is patched or unmapped while it waits.
// build: -pthread
#include "check.h"
#include <pthread.h>
#include <setjmp.h>

static sigjmp_buf recover;
static volatile long fault_pc;
static void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    fault_pc = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    siglongjmp(recover, 1);
}

static unsigned char *code;
static int ends[2];

static void *patch(void *unused) {
    (void)unused;
    usleep(30000);
    // The instruction after the waiting call becomes `mov eax, 99; ret`.
    memcpy(code + 64 + 7, "\xb8\x63\x00\x00\x00\xc3", 6);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    return NULL;
}

int main(void) {
    on_signal(SIGSEGV, handler, 0);
    CHECK_EQ(pipe(ends), 0);
    code = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    CHECK_EQ(munmap(code + 4096, 4096), 0);
    // mov eax, 39; syscall at the very end: the call is made, then the next fetch faults.
    memcpy(code + 4096 - 7, "\xb8\x27\x00\x00\x00\x0f\x05", 7);
    if (sigsetjmp(recover, 1) == 0) {
        ((void (*)(void))(code + 4096 - 7))();
        check_failed("returned\n");
    }
    CHECK_EQ(fault_pc, (long)code + 4096);
    puts("fault behind the call");
    // xor eax, eax; syscall; nop…; ret: read(fd, buffer, 1), patched while it waits.
    memcpy(code + 64, "\x31\xc0\x0f\x05\x90\x90\x90\x90\x90\x90\x90\x90\x90\xc3", 14);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, patch, NULL), 0);
    char byte;
    long (*read_call)(long, void *, long) = (long (*)(long, void *, long))(code + 64);
    printf("patched during the call: %ld\n", read_call(ends[0], &byte, 1));
    pthread_join(thread, NULL);
}
