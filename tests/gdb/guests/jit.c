/* Writes code into memory, calls it, and writes other code to the same place. */

#include <string.h>
#include <sys/mman.h>

typedef long (*Function)(long);

static Function code;
static long results[2];

/* lea rax, [rdi + added]; ret */
static void make_adder(unsigned char *to, unsigned char added)
{
    unsigned char bytes[] = { 0x48, 0x8d, 0x47, added, 0xc3 };
    memcpy(to, bytes, sizeof bytes);
}

static long call(long value)
{
    return code(value);
}

int main(void)
{
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 2;
    code = (Function)memory;
    make_adder(memory, 5);
    results[0] = call(10);
    make_adder(memory, 7);
    results[1] = call(10);
    return results[0] == 15 && results[1] == 17 ? 0 : 1;
}
