// Repeated string instructions of all widths, in both directions, overlapping or not, across pages, against a model in plain C:
// memory, registers and flags.
// build: -O1
#include "check.h"

enum { PAGE = 4096, SIZE = 3 * PAGE, ROUNDS = 3000 };

static unsigned char memory[SIZE] __attribute__((aligned(4096))), expected[SIZE];

struct state {
    uint64_t rax, rcx, rsi, rdi, flags;
};

static uint64_t seed = 88172645463325252u;
static uint64_t random_below(uint64_t below) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    return (seed >> 11) % below;
}

static uint64_t get(const unsigned char *at, int width) {
    uint64_t value = 0;
    memcpy(&value, at, width);
    return value;
}

// ZF and CF of a comparison are enough: they come from the same subtraction as the others.
static uint64_t compare(uint64_t left, uint64_t right) { return (left == right ? 0x40 : 0) | (left < right); }

enum kind { MOVS, STOS, LODS, CMPS, SCAS, KINDS };

static void model(enum kind kind, int width, int while_equal, int backwards, struct state *s) {
    int64_t step = backwards ? -width : width;
    while (s->rcx) {
        unsigned char *from = expected + (s->rsi - (uintptr_t)memory), *to = expected + (s->rdi - (uintptr_t)memory);
        uint64_t mask = width == 8 ? ~0ul : (1ul << width * 8) - 1, left = 0;
        if (kind == MOVS) memmove(to, from, width);
        if (kind == STOS) memcpy(to, &s->rax, width);
        if (kind == LODS) s->rax = width < 4 ? (s->rax & ~mask) | get(from, width) : get(from, width);
        if (kind == CMPS) left = get(from, width);
        if (kind == SCAS) left = s->rax & mask;
        if (kind == MOVS || kind == LODS || kind == CMPS) s->rsi += step;
        if (kind != LODS) s->rdi += step;
        s->rcx--;
        if (kind == CMPS || kind == SCAS) {
            s->flags = compare(left, get(to, width));
            if (((s->flags & 0x40) != 0) != while_equal) break;
        }
    }
}

#define RUN(instruction)                                                                                       \
    asm volatile("testb $1, %5; jz 1f; std; 1: " instruction "; pushfq; popq %4; cld"                              \
                 : "+a"(s->rax), "+c"(s->rcx), "+S"(s->rsi), "+D"(s->rdi), "=&r"(s->flags)                         \
                 : "r"((char)backwards) : "memory", "cc")
#define WIDTHS(prefix, name)                                                                                   \
    switch (width) {                                                                                           \
    case 1: RUN(prefix " " name "b"); break;                                                                   \
    case 2: RUN(prefix " " name "w"); break;                                                                   \
    case 4: RUN(prefix " " name "l"); break;                                                                   \
    case 8: RUN(prefix " " name "q"); break;                                                                   \
    }

static void execute(enum kind kind, int width, int while_equal, int backwards, struct state *s) {
    switch (kind) {
    case MOVS: WIDTHS("rep", "movs") break;
    case STOS: WIDTHS("rep", "stos") break;
    case LODS: WIDTHS("rep", "lods") break;
    case CMPS: if (while_equal) WIDTHS("repe", "cmps") else WIDTHS("repne", "cmps") break;
    case SCAS: if (while_equal) WIDTHS("repe", "scas") else WIDTHS("repne", "scas") break;
    default: break;
    }
}

int main(void) {
    unsigned sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        enum kind kind = random_below(KINDS);
        int width = 1 << random_below(4), while_equal = random_below(2), backwards = random_below(2);
        // Few values, so that comparisons go on for a while either way.
        unsigned variety = random_below(3) ? 2 : 1 + random_below(255), same = random_below(2);
        for (int i = 0; i < SIZE; i++) memory[i] = expected[i] = same && round % 3 ? 7 : random_below(variety);
        uint64_t most = random_below(4) ? 40 : SIZE / 2 / width - 2, count = random_below(most);
        uint64_t extent = count * width, room = SIZE - extent - 16;
        uint64_t source = random_below(room), destination = random_below(3) ? random_below(room) : source + random_below(24);
        if (destination > room) destination = room;
        uint64_t last = backwards && count ? extent - width : 0;
        struct state before = {.rax = random_below(variety) * 0x0101010101010101u, .rcx = count,
                               .rsi = (uintptr_t)memory + source + last, .rdi = (uintptr_t)memory + destination + last};
        struct state wanted = before, found = before;
        model(kind, width, while_equal, backwards, &wanted);
        execute(kind, width, while_equal, backwards, &found);
        CHECK_EQ(found.rax, wanted.rax);
        CHECK_EQ(found.rcx, wanted.rcx);
        CHECK_EQ(found.rsi, wanted.rsi);
        CHECK_EQ(found.rdi, wanted.rdi);
        if ((kind == CMPS || kind == SCAS) && count) CHECK_EQ(found.flags & 0x41, wanted.flags);
        CHECK(memcmp(memory, expected, SIZE) == 0);
        sum = sum * 31 + (unsigned)found.rcx;
    }
    printf("%x\n", sum);
}
