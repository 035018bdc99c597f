// Segments of a local descriptor table: described with modify_ldt, loaded into segment registers, addressed through, asked about;
// missing ones fault. Children have a copy, threads the same.
// build: -O1 -pthread -fno-stack-protector
#include "check.h"
#include <asm/ldt.h>
#include <pthread.h>
#include <setjmp.h>

#define SELECTOR(entry) ((entry) << 3 | 7)

static volatile int faults, last_signal;
static volatile long last_error;
static sigjmp_buf back;

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)info;
    faults++;
    last_signal = number;
    last_error = ((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR];
    siglongjmp(back, 1);
}

static int describe(int entry, unsigned base, int present) {
    struct user_desc description = {
        .entry_number = entry, .base_addr = base, .limit = 0xfff, .seg_32bit = 1, .contents = MODIFY_LDT_CONTENTS_DATA,
        .read_exec_only = 0, .limit_in_pages = 0, .seg_not_present = !present, .useable = 1};
    return syscall(SYS_modify_ldt, 0x11, &description, sizeof description);
}

static void load_gs(int selector) { asm volatile("mov %0, %%gs" ::"r"(selector)); }
static void load_fs(int selector) { asm volatile("mov %0, %%fs" ::"r"(selector)); }
static void load_ds(int selector) { asm volatile("mov %0, %%ds" ::"r"(selector)); }

static long through_gs(long offset) {
    long value;
    asm volatile("mov %%gs:(%1), %0" : "=r"(value) : "r"(offset));
    return value;
}

#define FAULT(statement) ({ int before = faults; if (!sigsetjmp(back, 1)) { statement; } faults - before; })

static void *in_thread(void *unused) {
    (void)unused;
    load_gs(SELECTOR(3));
    long value = through_gs(8);
    load_gs(0);
    return (void *)value;
}

int main(void) {
    on_signal(SIGSEGV, on_fault, SA_NODEFER);
    on_signal(SIGBUS, on_fault, SA_NODEFER);
    long *low = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    CHECK(low != MAP_FAILED);
    for (int i = 0; i < 1024; i++) low[i] = 1000 + i;
    if (describe(3, (unsigned)(long)low, 1) != 0) {
        puts("no local segments here");
        return 0;
    }
    CHECK_EQ(describe(4, (unsigned)(long)low + 4096, 1), 0);
    CHECK_EQ(describe(5, (unsigned)(long)low, 0), 0);
    char table[64];
    CHECK_EQ(syscall(SYS_modify_ldt, 0, table, sizeof table), sizeof table);
    CHECK_EQ(describe(9999, 0, 1) & 0xfff, -EINVAL & 0xfff);

    load_gs(SELECTOR(3));
    CHECK_EQ(through_gs(0), 1000);
    CHECK_EQ(through_gs(64), 1008);
    unsigned short selector;
    asm("mov %%gs, %0" : "=r"(selector));
    CHECK_EQ(selector, SELECTOR(3));
    load_gs(SELECTOR(4));
    CHECK_EQ(through_gs(8), 1513);
    load_gs(0);
    puts("gs");

    // FS is the C library's: give it back before anybody needs it.
    long first, second, base;
    asm volatile("mov $158, %%eax\n mov $0x1003, %%edi\n lea %2, %%rsi\n syscall\n"
                 "mov %3, %%fs\n mov %%fs:16, %0\n mov %4, %%fs\n mov %%fs:16, %1\n mov %%fs, %%ebx\n"
                 "mov $158, %%eax\n mov $0x1002, %%edi\n mov %2, %%rsi\n syscall\n mov %%ebx, %%eax"
                 : "=&r"(first), "=&r"(second), "=m"(base)
                 : "r"(SELECTOR(3)), "r"(SELECTOR(4))
                 : "rax", "rbx", "rcx", "rdi", "rsi", "r11", "memory");
    CHECK_EQ(first, 1002);
    CHECK_EQ(second, 1514);
    puts("fs");

    // Other data segments are flat whatever the table says, but must be there.
    load_ds(SELECTOR(3));
    CHECK_EQ(low[5], 1005);
    asm("mov %%ds, %0" : "=r"(selector));
    CHECK_EQ(selector, SELECTOR(3));
    unsigned limit = 0;
    char found;
    asm("lsl %2, %1; setz %0" : "=r"(found), "+r"(limit) : "r"(SELECTOR(3)) : "cc");
    CHECK(found && limit == 0xfff);
    load_ds(0);
    asm("lsl %2, %1; setz %0" : "=r"(found), "+r"(limit) : "r"(SELECTOR(7)) : "cc");
    CHECK(!found);
    CHECK(FAULT(load_ds(SELECTOR(7))) == 1 && last_signal == SIGSEGV && last_error == (SELECTOR(7) & 0xfffc));
    CHECK(FAULT(load_ds(SELECTOR(5))) == 1 && last_signal == SIGBUS && last_error == (SELECTOR(5) & 0xfffc));
    CHECK(FAULT(load_fs(SELECTOR(7))) == 1 && last_signal == SIGSEGV);
    CHECK(FAULT(load_gs(SELECTOR(7))) == 1 && last_signal == SIGSEGV && last_error == (SELECTOR(7) & 0xfffc));
    puts("others");

    pthread_t thread;
    void *value;
    CHECK_EQ(pthread_create(&thread, NULL, in_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, &value), 0);
    CHECK_EQ((long)value, 1001);
    pid_t child = fork();
    if (child == 0) {
        load_gs(SELECTOR(4));
        CHECK_EQ(through_gs(0), 1512);
        CHECK_EQ(describe(4, (unsigned)(long)low, 1), 0);
        load_gs(SELECTOR(4));
        CHECK_EQ(through_gs(0), 1000);
        _exit(6);
    }
    CHECK_EQ(exit_code_of(child), 6);
    load_gs(SELECTOR(4));
    CHECK_EQ(through_gs(0), 1512);
    puts("shared and copied");
}
