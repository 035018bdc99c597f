// Code that modifies itself: the very next instruction of the same block, its own loop body ten
// thousand times, an instruction behind it, and through a string instruction.
#include "check.h"

static unsigned char *code;

static void put(const void *bytes, size_t size) { memcpy(code, bytes, size); }

int main(void) {
    code = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    int (*function)(int) = (int (*)(int))code;

    // mov [rip+1], dil; mov eax, imm32; ret: the stored byte is the next instruction's operand.
    put("\x40\x88\x3d\x01\x00\x00\x00\xb8\x00\x00\x00\x00\xc3", 13);
    long sum = 0;
    for (int i = 0; i < 1000; i++) {
        int got = function(i & 127);
        CHECK_EQ(got, i & 127);
        sum += got;
    }
    printf("next instruction: %ld\n", sum);

    // A loop whose body increments its own immediate:
    //   xor eax, eax; mov ecx, edi; 1: add eax, imm32; inc dword [rip-10]; dec ecx; jnz 1b; ret
    put("\x31\xc0\x89\xf9\x05\x00\x00\x00\x00\xff\x05\xf6\xff\xff\xff\xff\xc9\x75\xf1\xc3", 20);
    CHECK_EQ(function(10000), 49995000);
    puts("loop body: 10000 changes");
    memset(code + 5, 0, 4);
    CHECK_EQ(function(100), 4950);

    // The instruction is replaced by another one of the same length: inc eax becomes dec eax.
    //   mov eax, edi; mov byte [rip+1], sil; ff /?: inc or dec eax; ret
    put("\x89\xf8\x40\x88\x35\x01\x00\x00\x00\xff\xc0\xc3", 12);
    int (*choose)(int, int) = (int (*)(int, int))code;
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(choose(50, 0xc0), 51);
        CHECK_EQ(choose(50, 0xc8), 49);
    }
    puts("opcode replaced");

    // A store behind: first half runs, is changed by the second half for the next call.
    //   mov eax, imm32; add byte [rip-10], 1; ret
    put("\xb8\x05\x00\x00\x00\x80\x05\xf5\xff\xff\xff\x01\xc3", 13);
    for (int i = 0; i < 100; i++) CHECK_EQ(function(0), 5 + i);
    puts("operand behind");

    // rep movsb copies new code over what follows.
    //   rep movsb; nop * 8; ret
    put("\xf3\xa4\x90\x90\x90\x90\x90\x90\x90\x90\xc3", 11);
    int result;
    for (int i = 0; i < 100; i++) {
        unsigned char fresh[] = {0xb8, (unsigned char)i, 0, 0, 0, 0x90, 0x90, 0x90};
        const void *source = fresh;
        void *target = code + 2;
        long count = 8;
        asm volatile("call *%4" : "=a"(result), "+S"(source), "+D"(target), "+c"(count) : "r"(code) : "memory", "cc");
        CHECK_EQ(result, i);
    }
    puts("string copy");

    // An instruction across two pages, changed in its second half.
    unsigned char *split = code + 4096 - 3;
    memcpy(split, "\xb8\x01\x02\x03\x04\xc3", 6);
    int (*crossing)(void) = (int (*)(void))split;
    for (int i = 0; i < 200; i++) {
        code[4096] = (unsigned char)i;
        CHECK_EQ(crossing(), 0x04000201 | (i & 255) << 16);
        code[4095] = (unsigned char)i;
        CHECK_EQ(crossing(), 0x04000001 | (i & 255) << 16 | (i & 255) << 8);
        code[4095] = 2;
    }
    puts("across pages");
}
