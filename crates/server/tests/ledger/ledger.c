/* Moves money between accounts, once too much. Uses no library, so that every machine executes the same instructions. */

struct account {
    const char *owner;
    long balance;
};

struct account accounts[3] = {{"ada", 100}, {"bob", 50}, {"eve", 0}};
long total;
int alarms;

static long system_call(long number, long a, long b, long c, long d)
{
    long result;
    register long fourth __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(-1L)
                     : "rcx", "r11", "memory");
    return result;
}

static void on_alarm(int signal)
{
    alarms += signal;
}

/* What the kernel wants to know about a handler, and where the handler returns to. */
struct action {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    unsigned long mask;
};
void back_to_kernel(void);
__asm__("back_to_kernel: mov $15, %eax\n syscall");

static void raise_alarm(void)
{
    struct action action = {on_alarm, 0x04000000, back_to_kernel, 0};
    system_call(13, 10, (long)&action, 0, 8);
    system_call(62, system_call(39, 0, 0, 0, 0), 10, 0, 0);
}

long transfer(struct account *from, struct account *to, long amount)
{
    from->balance -= amount;
    to->balance += amount;
    return from->balance;
}

static long sum(void)
{
    long all = 0;
    for (int i = 0; i < 3; i++)
        all += accounts[i].balance;
    return all;
}

void _start(void)
{
    transfer(&accounts[0], &accounts[1], 30);
    transfer(&accounts[1], &accounts[2], 100);
    total = sum();
    raise_alarm();
    long page = system_call(9, 0, 4096, 3, 0x22);
    system_call(11, page, 4096, 0, 0);
    system_call(1, 1, (long)"done\n", 5, 0);
    system_call(231, 0, 0, 0, 0);
}
