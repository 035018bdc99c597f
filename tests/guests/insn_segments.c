// Segment registers and their bases: reading selectors, GS base through arch_prctl and through
// WRGSBASE, FS base through WRFSBASE, accesses relative to both, and selectors loaded with null.
// build: -O1 -mfsgsbase -fno-stack-protector
// needs: fsgsbase
#include "check.h"
#include <asm/prctl.h>
#include <immintrin.h>
#include <sys/syscall.h>

static long data[16] = {100, 101, 102, 103, 104, 105, 106, 107};
static long other[16] = {200, 201, 202, 203};

static long gs_load(long offset) {
    long value;
    asm volatile("mov %%gs:(%1), %0" : "=r"(value) : "r"(offset));
    return value;
}

int main(void) {
    unsigned short cs, ss, ds, es, fs, gs;
    asm("mov %%cs, %0; mov %%ss, %1; mov %%ds, %2; mov %%es, %3; mov %%fs, %4; mov %%gs, %5"
        : "=r"(cs), "=r"(ss), "=r"(ds), "=r"(es), "=r"(fs), "=r"(gs));
    printf("selectors %x %x %x %x %x %x\n", cs, ss, ds, es, fs, gs);
    unsigned long base = -1;
    CHECK_EQ(syscall(SYS_arch_prctl, ARCH_GET_GS, &base), 0);
    CHECK_EQ(base, 0);
    CHECK_EQ(_readgsbase_u64(), 0);

    CHECK_EQ(syscall(SYS_arch_prctl, ARCH_SET_GS, data), 0);
    CHECK_EQ(syscall(SYS_arch_prctl, ARCH_GET_GS, &base), 0);
    CHECK_EQ(base, (long)data);
    CHECK_EQ(_readgsbase_u64(), (long)data);
    CHECK_EQ(gs_load(0), 100);
    CHECK_EQ(gs_load(24), 103);
    asm volatile("movq $555, %gs:16");
    CHECK_EQ(data[2], 555);
    asm volatile("lock addq $5, %%gs:(%0)" ::"r"(8l) : "cc", "memory");
    CHECK_EQ(data[1], 106);
    long index = 2, value;
    asm volatile("mov %%gs:8(%1,%2,8), %0" : "=r"(value) : "r"(0l), "r"(index));
    CHECK_EQ(value, 103);
    // lea ignores the segment; string sources obey it; calls and jumps through it work.
    asm volatile(".byte 0x65; lea 8(%1), %0" : "=r"(value) : "r"(1l));
    CHECK_EQ(value, 9);
    long copy = 0;
    void *to = &copy, *from = (void *)32;
    asm volatile("gs movsq" : "+S"(from), "+D"(to)::"memory");
    CHECK_EQ(copy, 104);
    asm volatile("lea 1f(%%rip), %%rax; mov %%rax, %%gs:40; jmp *%%gs:40; ud2; 1:" ::: "rax", "memory");
    asm volatile("pushq %%gs:48; popq %%gs:56" ::: "memory");
    CHECK_EQ(data[7], 106);
    __m128i vector;
    asm volatile("movdqu %%gs:0, %0" : "=x"(vector));
    CHECK_EQ(_mm_cvtsi128_si64(vector), 100);
    puts("gs through arch_prctl");

    _writegsbase_u64((unsigned long)other);
    CHECK_EQ(gs_load(8), 201);
    CHECK_EQ(syscall(SYS_arch_prctl, ARCH_GET_GS, &base), 0);
    CHECK_EQ(base, (long)other);
    _writegsbase_u32(0x12345678);
    CHECK_EQ(_readgsbase_u64(), 0x12345678);
    CHECK_EQ(_readgsbase_u32(), 0x12345678);
    // A null selector loaded into GS leaves or clears the base, as the processor does.
    _writegsbase_u64((unsigned long)data);
    asm volatile("mov %0, %%gs" ::"r"(0));
    printf("base after a null selector: %s\n", _readgsbase_u64() == 0 ? "zero" : _readgsbase_u64() == (unsigned long)data ? "kept" : "strange");
    puts("gs through wrgsbase");

    // FS belongs to the C library: moved aside and put back without a call in between.
    unsigned long old = _readfsbase_u64(), seen, got;
    asm volatile("wrfsbase %3; mov %%fs:8, %0; rdfsbase %1; wrfsbase %2" : "=&r"(value), "=&r"(seen) : "r"(old), "r"(other));
    CHECK_EQ(value, 201);
    CHECK_EQ(seen, (long)other);
    asm volatile("syscall" : "=a"(got) : "a"(SYS_arch_prctl), "D"(ARCH_GET_FS), "S"(&base) : "rcx", "r11", "memory");
    CHECK_EQ(base, old);
    CHECK_FAILS(syscall(SYS_arch_prctl, ARCH_SET_GS, 1ul << 63), EPERM);
    CHECK_FAILS(syscall(SYS_arch_prctl, 0x77777, 0), EINVAL);
    puts("fs through wrfsbase");
}
