// The initial stack and registers, seen without a C library: argc, argv, envp, the auxiliary
// vector, alignment, strings above them, and general registers that are zero.
// build: -nostdlib -static -fno-stack-protector -fno-builtin
// args: first second third
typedef unsigned long u64;

u64 entry_registers[16];
asm(".globl _start\n"
    "_start: mov %rax, entry_registers(%rip)\n mov %rbx, entry_registers+8(%rip)\n mov %rcx, entry_registers+16(%rip)\n"
    " mov %rdx, entry_registers+24(%rip)\n mov %rsi, entry_registers+32(%rip)\n mov %rdi, entry_registers+40(%rip)\n"
    " mov %rbp, entry_registers+48(%rip)\n mov %r8, entry_registers+56(%rip)\n mov %r15, entry_registers+64(%rip)\n"
    " pushfq\n pop entry_registers+72(%rip)\n stmxcsr entry_registers+80(%rip)\n fnstcw entry_registers+88(%rip)\n"
    " mov %rsp, %rdi\n and $-16, %rsp\n call begin\n hlt\n");

static long call(long number, long a, long b, long c) {
    long result;
    asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}
static u64 length(const char *text) {
    u64 n = 0;
    while (text[n]) n++;
    return n;
}
static void say(const char *text) { call(1, 1, (long)text, (long)length(text)); }
static void say_number(u64 value) {
    char text[20];
    int at = 19;
    text[at] = 0;
    do text[--at] = (char)('0' + value % 10);
    while (value /= 10);
    say(text + at);
}
static void need(int condition, const char *what) {
    if (condition) return;
    say("failed: ");
    say(what);
    say("\n");
    call(231, 99, 0, 0);
}

__attribute__((used)) void begin(u64 *stack) {
    need((u64)stack % 16 == 0, "stack alignment");
    u64 argc = stack[0];
    char **argv = (char **)(stack + 1), **envp = argv + argc + 1;
    need(argc == 4, "argc");
    need(argv[argc] == 0, "argv end");
    for (u64 i = 1; i < argc; i++) say(argv[i]), say("\n");
    u64 count = 0;
    while (envp[count]) {
        need(!(envp[count][0] == 'R' && envp[count][1] == 'E' && envp[count][2] == 'T' && envp[count][3] == 'R'), "foreign variable");
        count++;
    }
    u64 *auxiliary = (u64 *)(envp + count + 1);
    u64 values[64] = {0}, present = 0;
    for (u64 i = 0; auxiliary[i]; i += 2)
        if (auxiliary[i] < 64) values[auxiliary[i]] = auxiliary[i + 1], present |= 1ul << auxiliary[i];
    need(values[6] == 4096, "page size");
    need(values[3] != 0 && values[4] == 56 && values[5] >= 2, "program headers");
    need(values[7] == 0, "no interpreter, no base");
    extern char _start[];
    need(values[9] == (u64)_start, "entry");
    need(values[17] == 100, "clock ticks");
    need(values[23] == 0, "secure");
    need(present >> 25 & 1 && values[25] > (u64)stack, "random bytes above the stack pointer");
    need(present >> 31 & 1 && length((char *)values[31]) == length(argv[0]), "file name");
    need(present >> 15 & 1 && ((char *)values[15])[0] == 'x', "platform");
    // The strings lie above the vectors, in one piece.
    need((u64)argv[0] > (u64)(auxiliary + 2), "strings above");
    for (u64 i = 1; i < argc; i++) need(argv[i] == argv[i - 1] + length(argv[i - 1]) + 1, "arguments in one piece");
    if (count) need(envp[0] == argv[argc - 1] + length(argv[argc - 1]) + 1, "environment behind the arguments");
    for (int i = 0; i < 9; i++) need(entry_registers[i] == 0, "registers zero");
    need((entry_registers[9] & 0xcd5) == 0, "flags clear");
    need((unsigned)entry_registers[10] == 0x1f80, "mxcsr");
    need((unsigned short)entry_registers[11] == 0x37f, "x87 control word");
    say_number(argc);
    say(" arguments\n");
    call(231, 0, 0, 0);
}
