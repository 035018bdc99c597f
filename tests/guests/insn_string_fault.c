// A repeated string instruction that faults in the middle: the registers show how far it came,
// and it resumes there when the handler repairs the page.
#include "check.h"

static volatile long seen_rcx, seen_rsi, seen_rdi, seen_rip;
static volatile int faults;
static char *base;
extern char move_at[], store_at[], compare_at[];
long move(void *to, const void *from, long unused, long count);
long store(void *to, long unused, long unused2, long count);
long compare(void *to, const void *from, long unused, long count);
asm(".pushsection .text\n"
    "move: mov $7, %eax\nmove_at: rep movsb\n mov %rcx, %rax\n ret\n"
    "store: mov $0x5a, %eax\nstore_at: rep stosb\n mov %rcx, %rax\n ret\n"
    "compare: mov $7, %eax\ncompare_at: repe cmpsb\n mov %rcx, %rax\n ret\n"
    ".popsection");

static void handler(int number, siginfo_t *info, void *context) {
    CHECK_EQ(number, SIGSEGV);
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    seen_rcx = registers[REG_RCX], seen_rsi = registers[REG_RSI], seen_rdi = registers[REG_RDI];
    seen_rip = registers[REG_RIP];
    CHECK_EQ((long)info->si_addr & ~4095, (long)(base + 4096));
    faults++;
    CHECK_EQ(mprotect(base + 4096, 4096, PROT_READ | PROT_WRITE), 0);
}

int main(void) {
    on_signal(SIGSEGV, handler, 0);
    base = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *source = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED && source != MAP_FAILED);
    for (int i = 0; i < 12288; i++) source[i] = (char)(i * 3 + i / 256);
    for (int offset = 0; offset < 20; offset += 3) {
        CHECK_EQ(mprotect(base + 4096, 4096, PROT_NONE), 0);
        CHECK_EQ(move(base + 4000 + offset, source, 0, 5000), 0);
        CHECK_EQ(seen_rip, (long)move_at);
        CHECK_EQ(seen_rcx, 5000 - 96 + offset);
        CHECK_EQ(seen_rsi, (long)source + 96 - offset);
        CHECK_EQ(seen_rdi, (long)base + 4096);
        CHECK_EQ(memcmp(base + 4000 + offset, source, 5000), 0);

        CHECK_EQ(mprotect(base + 4096, 4096, PROT_READ), 0);
        CHECK_EQ(store(base + 4000 + offset, 0, 0, 200), 0);
        CHECK_EQ(seen_rip, (long)store_at);
        CHECK_EQ(seen_rcx, 200 - 96 + offset);
        CHECK_EQ(seen_rdi, (long)base + 4096);

        memcpy(base, source, 12288);
        CHECK_EQ(mprotect(base + 4096, 4096, PROT_NONE), 0);
        CHECK_EQ(compare(base, source, 0, 12288), 0);
        CHECK_EQ(seen_rip, (long)compare_at);
        CHECK_EQ(seen_rcx, 12288 - 4096);
        CHECK_EQ(seen_rsi, (long)source + 4096);
    }
    printf("%d faults resumed\n", faults);
}
