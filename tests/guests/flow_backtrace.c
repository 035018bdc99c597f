// Backtraces: return addresses on the stack are the program's own, also through a signal frame.
// build: -O1 -rdynamic -fno-omit-frame-pointer -fno-optimize-sibling-calls -ldl
#include "check.h"
#include <dlfcn.h>
#include <execinfo.h>

static void show(const char *title) {
    void *frames[30];
    int count = backtrace(frames, 30);
    printf("%s:", title);
    for (int i = 1; i < count; i++) {
        Dl_info info;
        if (dladdr(frames[i], &info) && info.dli_sname) {
            if (strstr(info.dli_sname, "libc_start")) break;
            printf(" %s", info.dli_sname);
            if (strcmp(info.dli_sname, "main") == 0) break;
        } else printf(" ?");
    }
    puts("");
}

static volatile int sink;
void handler(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    show("in a handler");
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}
__attribute__((noinline)) void third(int how) {
    if (how == 0) show("plain");
    else asm volatile("ud2");
    sink++;
}
__attribute__((noinline)) void second(int how) { third(how), sink++; }
__attribute__((noinline)) void first(int how) { second(how), sink++; }

int main(void) {
    on_signal(SIGILL, handler, 0);
    first(0);
    first(1);
    // By frame pointers: each return address lies in the function that called.
    long *frame = __builtin_frame_address(0);
    CHECK(frame[0] == 0 || frame[0] == 1 || frame[0] > 4096);
    Dl_info info;
    CHECK(dladdr((void *)frame[1], &info) != 0);
    puts(strstr(info.dli_fname, "libc") ? "main was called by libc" : "main was called by something else");
}
