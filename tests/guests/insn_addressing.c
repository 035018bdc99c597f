// Addressing forms: rip-relative operands of many instructions, 32-bit address size, high byte
// registers, unusual prefixes and their order, XLAT, absolute 64-bit moves, long nops.
#include "check.h"

long forms(long *out);
asm(".pushsection .text\n"
    "forms: push %rbx\n push %r12\n push %rbp\n"
    " movq $10, cell(%rip)\n addq $5, cell(%rip)\n mov cell(%rip), %rax\n mov %rax, (%rdi)\n"
    " cmpq $15, cell(%rip)\n sete %al\n movzbl %al, %eax\n mov %rax, 8(%rdi)\n"
    " lea cell(%rip), %rax\n mov (%rax), %rax\n mov %rax, 16(%rdi)\n"
    " movl $0x12345678, cell+4(%rip)\n mov cell(%rip), %rax\n mov %rax, 24(%rdi)\n"
    " pushq cell(%rip)\n popq cell+8(%rip)\n mov cell+8(%rip), %rax\n mov %rax, 32(%rdi)\n"
    " imul $7, cell(%rip), %rax\n mov %rax, 40(%rdi)\n"
    " movdqu cell(%rip), %xmm5\n movq %xmm5, 48(%rdi)\n"
    " shlq $3, cell(%rip)\n mov cell(%rip), %rax\n mov %rax, 56(%rdi)\n"
    " mov $1, %eax\n lock xaddq %rax, cell(%rip)\n mov %rax, 64(%rdi)\n"
    " testb $1, cell(%rip)\n setnz %al\n movzbl %al, %eax\n mov %rax, 72(%rdi)\n"
    // Every register is in use around a rip-relative operand: none may be borrowed visibly.
    " mov $1, %eax\n mov $2, %ecx\n mov $3, %edx\n mov $4, %ebx\n mov $5, %esi\n mov $6, %r8d\n mov $7, %r9d\n mov $8, %r10d\n mov $9, %r11d\n mov $10, %r12d\n mov $11, %ebp\n"
    " add cell+16(%rip), %rbp\n add %rax, %rbp\n add %rcx, %rbp\n add %rdx, %rbp\n add %rbx, %rbp\n add %rsi, %rbp\n add %r8, %rbp\n add %r9, %rbp\n add %r10, %rbp\n add %r11, %rbp\n add %r12, %rbp\n mov %rbp, 80(%rdi)\n"
    " mov $0x1122334455667788, %rax\n mov %ah, %bl\n mov $0, %bh\n mov %al, %bh\n movzwl %bx, %ebx\n mov %rbx, 88(%rdi)\n"
    " mov $0, %esi\n mov $0x99, %sil\n mov %rsi, 96(%rdi)\n"
    // xlat through rbx; a prefix on registers only is ignored.
    " lea bytes(%rip), %rbx\n mov $3, %eax\n xlatb\n movzbl %al, %eax\n mov %rax, 104(%rdi)\n"
    " .byte 0x2e, 0x3e, 0x26, 0x36\n mov %rax, %rcx\n mov %rcx, 112(%rdi)\n"
    // REX before a legacy prefix is void: this is a 16-bit add.
    " mov $0x10000ffff, %rax\n .byte 0x48, 0x66, 0x83, 0xc0, 0x01\n mov %rax, 120(%rdi)\n"
    " .byte 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n .byte 0xf3, 0x90\n .byte 0x0f, 0x1f, 0xc0\n"
    " movabs $0x7766554433221100, %rax\n mov %rax, 128(%rdi)\n"
    // Sign extensions and partial writes: 32-bit ones clear, 8- and 16-bit ones keep.
    " mov $-1, %rax\n mov $5, %al\n mov %rax, 136(%rdi)\n mov $-1, %rax\n mov $5, %ax\n mov %rax, 144(%rdi)\n mov $-1, %rax\n mov $5, %eax\n mov %rax, 152(%rdi)\n"
    " mov $0x80, %eax\n cbtw\n cwtl\n cltq\n mov %rax, 160(%rdi)\n cqto\n mov %rdx, 168(%rdi)\n"
    " mov $-1, %rax\n xor %ecx, %ecx\n cmp $1, %ecx\n cmovz %ecx, %eax\n mov %rax, 176(%rdi)\n"
    " prefetcht0 0\n prefetchnta -1(%rdi)\n endbr64\n lfence\n mfence\n sfence\n pause\n"
    " pop %rbp\n pop %r12\n pop %rbx\n xor %eax, %eax\n ret\n"
    ".popsection\n"
    ".pushsection .data\n .balign 16\n cell: .quad 0, 0, 1000, 0\n bytes: .byte 9, 8, 7, 66, 5\n .popsection");

int main(void) {
    long out[32];
    for (int round = 0; round < 20; round++) {
        CHECK_EQ(forms(out), 0);
        if (round == 0)
            for (int i = 0; i < 23; i++) printf("%d: %lx\n", i, out[i]);
    }
    // 32-bit address size: the effective address is cut to 32 bits.
    long *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    CHECK(low != MAP_FAILED);
    low[3] = 4321;
    long value;
    asm volatile("addr32 mov 24(%k1), %0" : "=r"(value) : "r"((long)low | 0x5500000000));
    CHECK_EQ(value, 4321);
    asm volatile("addr32 lea 16(%k1), %0" : "=r"(value) : "r"(-8l));
    CHECK_EQ(value, 8);
    asm volatile("addr32 movq $77, (%k0,%k1,8)" ::"r"((long)low), "r"(2l) : "memory");
    CHECK_EQ(low[2], 77);
    // The accumulator's absolute form, at an address below 4 GiB and one above.
    unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    static long high = 8765;
    for (int i = 0; i < 2; i++) {
        long *cell = i ? &high : &low[3];
        memcpy(code, "\x48\xa1", 2); // mov rax, [imm64]
        memcpy(code + 2, &cell, 8);
        memcpy(code + 10, "\x48\xff\xc0\x48\xa3", 5); // inc rax; mov [imm64], rax
        memcpy(code + 15, &cell, 8);
        code[23] = 0xc3;
        long before = *cell;
        CHECK_EQ(((long (*)(void))code)(), before + 1);
        CHECK_EQ(*cell, before + 1);
    }
    return 0;
}
