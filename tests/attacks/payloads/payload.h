/* What a recording runs natively once it has taken over the process that replays it. No library, no fixed address:
 * the code is copied somewhere and jumped to. */
typedef unsigned long word;

#define NR_read 0
#define NR_write 1
#define NR_open 2
#define NR_close 3
#define NR_fstat 5
#define NR_mmap 9
#define NR_mprotect 10
#define NR_munmap 11
#define NR_rt_sigaction 13
#define NR_rt_sigprocmask 14
#define NR_ioctl 16
#define NR_dup2 33
#define NR_getpid 39
#define NR_socket 41
#define NR_connect 42
#define NR_sendmsg 46
#define NR_recvmsg 47
#define NR_clone 56
#define NR_fork 57
#define NR_vfork 58
#define NR_execve 59
#define NR_kill 62
#define NR_ptrace 101
#define NR_setsid 112
#define NR_setpgid 109
#define NR_prctl 157
#define NR_madvise 28
#define NR_tgkill 234
#define NR_openat 257
#define NR_exit_group 231
#define NR_prlimit64 302
#define NR_process_vm_writev 311
#define NR_seccomp 317
#define NR_memfd_create 319
#define NR_clone3 435
#define NR_pidfd_open 434
#define NR_io_uring_setup 425

static inline word call6(word number, word a, word b, word c, word d, word e, word f)
{
    word result;
    register word r10 __asm__("r10") = d;
    register word r8 __asm__("r8") = e;
    register word r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

#define call(number, a, b, c) call6(number, (word)(a), (word)(b), (word)(c), 0, 0, 0)

static inline word length(const char *text)
{
    word count = 0;
    while (text[count])
        count++;
    return count;
}

/* The standard error stream is what a replay process may write to. */
static inline void say(const char *text)
{
    call(NR_write, 2, text, length(text));
}

static inline void say_number(word number)
{
    char digits[24];
    word at = sizeof digits;
    digits[--at] = 0;
    do
        digits[--at] = '0' + number % 10;
    while (number /= 10);
    say(digits + at);
}

/* A message as the dialogue of a replay has it: eight words, then a payload. */
struct piece {
    const void *base;
    word length;
};

struct message {
    void *name;
    unsigned name_length;
    struct piece *pieces;
    word piece_count;
    void *control;
    word control_length;
    unsigned flags;
};

static inline word tell(const word *header, const void *payload, word payload_length)
{
    struct piece pieces[2] = {{header, 64}, {payload, payload_length}};
    struct message message = {0, 0, pieces, 2, 0, 0, 0};
    return call(NR_sendmsg, 0, &message, 0x4000);
}

static inline word hear(word *header, void *payload, word room)
{
    struct piece pieces[2] = {{header, 64}, {payload, room}};
    struct message message = {0, 0, pieces, 2, 0, 0, 0};
    return call(NR_recvmsg, 0, &message, 0);
}

#define TELL_STOPPED 64
#define TELL_DIVERGED 65
#define TELL_FAILED 66
#define TELL_DONE 67
#define TELL_REGISTERS 68
#define TELL_NEED 72
#define TELL_BLOCK 73
#define TELL_STREAM 74
#define TELL_WRITTEN 75
#define TELL_CLEARED 76
#define TELL_COUNTS 77
#define TELL_MOVED 78
#define TELL_SAMPLES 79

void attack(void);

__attribute__((section(".text.first"), used, naked)) void first(void)
{
    __asm__("and $-16, %rsp\n\tcall attack\n\tud2");
}

/* The compiler may want it. */
__attribute__((used)) void *memset(void *to, int value, word count)
{
    char *at = to;
    while (count--)
        *at++ = value;
    return to;
}

__attribute__((used)) void *memcpy(void *to, const void *from, word count)
{
    char *at = to;
    const char *source = from;
    while (count--)
        *at++ = *source++;
    return to;
}
