// Memory of a tracee, read and written in all ways there are; code among it: breakpoints, and code that is exchanged while the
// tracee has executed it often.
// build: -O1
#include "trace.h"
#include <fcntl.h>

enum { PEEK, FILE_OF, VECTOR };

static volatile long data[4] = {1, 2, 3, 4};
static const long constant = 0x1122334455667788;

// mov $1, %eax; ret, with room.
extern char answer[], answer_value[], after_call[];
int answer_function(void);
asm(".text\n.balign 16\nanswer:\nanswer_function: nop\nnop\n.byte 0xb8\nanswer_value: .long 1\nret\n.balign 16\n");

static void tracee(void) {
    for (int round = 0;; round++) {
        int sum = 0;
        for (int i = 0; i < 10000; i++) sum += answer_function();
        CHECK_EQ(sum, 10000L * data[0]);
        CHECK_EQ(data[1], 2 * data[0]);
        if (data[2] == 99) _exit(33);
        raise(SIGUSR1);
    }
}

static int memory_file;

static void write_word(pid_t tracee, int how, volatile void *address, long value) {
    if (how == PEEK) {
        CHECK_EQ(ptrace(PTRACE_POKEDATA, tracee, address, value), 0);
    } else if (how == FILE_OF) {
        CHECK_EQ(pwrite(memory_file, &value, 8, (long)address), 8);
    } else {
        struct iovec local = {&value, 8}, remote = {(void *)address, 8};
        CHECK_EQ(process_vm_writev(tracee, &local, 1, &remote, 1, 0), 8);
    }
}

static long read_word(pid_t tracee, int how, volatile void *address) {
    long value = 0;
    if (how == PEEK) {
        errno = 0;
        value = ptrace(PTRACE_PEEKDATA, tracee, address, 0);
        CHECK_EQ(errno, 0);
    } else if (how == FILE_OF) {
        CHECK_EQ(pread(memory_file, &value, 8, (long)address), 8);
    } else {
        struct iovec local = {&value, 8}, remote = {(void *)address, 8};
        CHECK_EQ(process_vm_readv(tracee, &local, 1, &remote, 1, 0), 8);
    }
    return value;
}

static void write_byte(pid_t tracee, int how, char *address, unsigned char byte) {
    long word = read_word(tracee, how, address);
    write_word(tracee, how, address, (word & ~0xffL) | byte);
}

int main(void) {
    pid_t child = traced_child(tracee);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", child);
    memory_file = open(path, O_RDWR);
    CHECK(memory_file >= 0);
    go_on(child, PTRACE_CONT, 0);
    CHECK_EQ(stop_of(child), SIGUSR1);
    for (int how = PEEK; how <= VECTOR; how++) {
        CHECK_EQ(read_word(child, how, (void *)&constant), constant);
        // Another answer, in code that the tracee may not write itself; vectors may not, either.
        int code_by = how == VECTOR ? FILE_OF : how;
        for (int value = 2; value < 5; value++) {
            write_byte(child, code_by, answer_value, value);
            write_word(child, how, &data[0], value);
            write_word(child, how, &data[1], 2 * value);
            CHECK_EQ(read_word(child, how, &data[1]), 2 * value);
            go_on(child, PTRACE_CONT, 0);
            CHECK_EQ(stop_of(child), SIGUSR1);
        }
        // A breakpoint, hit many times.
        long original = read_word(child, code_by, answer);
        write_byte(child, code_by, answer, 0xcc);
        for (int hit = 0; hit < 20; hit++) {
            go_on(child, PTRACE_CONT, 0);
            CHECK_EQ(stop_of(child), SIGTRAP);
            struct user_regs_struct registers = registers_of(child);
            CHECK_EQ(registers.rip, (long)answer + 1);
            CHECK_EQ(signal_of(child).si_code, SI_KERNEL);
            // Step over it.
            registers.rip--;
            set_registers(child, &registers);
            write_word(child, code_by, answer, original);
            go_on(child, PTRACE_SINGLESTEP, 0);
            CHECK_EQ(stop_of(child), SIGTRAP);
            CHECK_EQ(registers_of(child).rip, (long)answer + 1);
            write_byte(child, code_by, answer, 0xcc);
        }
        write_word(child, code_by, answer, original);
        go_on(child, PTRACE_CONT, 0);
        CHECK_EQ(stop_of(child), SIGUSR1);
        CHECK_EQ(registers_of(child).orig_rax, SYS_tgkill);
    }
    puts("read and written");
    struct iovec local = {path, 8}, remote = {(void *)&constant, 8};
    CHECK_FAILS(process_vm_writev(child, &local, 1, &remote, 1, 0), EFAULT);
    CHECK_FAILS(ptrace(PTRACE_PEEKDATA, child, 8, 0), EIO);
    CHECK_FAILS(ptrace(PTRACE_POKEDATA, child, 8, 0), EIO);
    write_word(child, PEEK, &data[2], 99);
    CHECK_EQ(end_of(child), 33);
    puts("done");
}
