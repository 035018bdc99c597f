// AMX: tiles only after permission was asked for; signal frames hold them from their first use on, thread by thread; what is
// computed with them survives signals and stretches of other work.
// build: -O1 -pthread -mamx-tile -mamx-int8
// needs: amx_tile amx_int8
// record: --interval 1M
#include "check.h"
#include <immintrin.h>
#include <pthread.h>

enum { GET_PERMITTED = 0x1022, REQUEST = 0x1023, TILE_DATA = 18, SOFTWARE = 464, ROWS = 16, BYTES = 64 };

static volatile uint64_t frame_features;
static volatile uint32_t frame_size;

static void look(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    unsigned char *state = (unsigned char *)((ucontext_t *)context)->uc_mcontext.fpregs;
    memcpy((void *)&frame_size, state + SOFTWARE + 4, 4);
    memcpy((void *)&frame_features, state + SOFTWARE + 8, 8);
}

static int frame_has_tiles(void) {
    CHECK_EQ(raise(SIGUSR1), 0);
    return frame_features >> TILE_DATA & 1;
}

struct configuration {
    unsigned char palette, start, reserved[14];
    unsigned short columns[16];
    unsigned char rows[16];
};

static void configure(void) {
    struct configuration wanted = {.palette = 1};
    for (int tile = 0; tile < 3; tile++) {
        wanted.columns[tile] = BYTES;
        wanted.rows[tile] = ROWS;
    }
    _tile_loadconfig(&wanted);
}

// One product of bytes, compared with plain arithmetic.
static void multiply(int seed) {
    static __thread unsigned char left[ROWS * 2][BYTES], right[ROWS][BYTES];
    static __thread int product[ROWS][BYTES / 4];
    for (int row = 0; row < ROWS; row++) {
        for (int column = 0; column < BYTES; column++) {
            left[row * 2][column] = row * 7 + column * 3 + seed;
            right[row][column] = row * 5 + column + seed * 2;
        }
    }
    memset(product, 0, sizeof product);
    _tile_zero(0);
    _tile_loadd(1, left, BYTES * 2); // every second row
    _tile_loadd(2, right, BYTES);
    _tile_dpbuud(0, 1, 2);
    if (seed % 3 == 0) CHECK(frame_has_tiles());
    _tile_stored(0, product, BYTES);
    for (int row = 0; row < ROWS; row++) {
        for (int column = 0; column < BYTES / 4; column++) {
            int sum = 0;
            for (int k = 0; k < BYTES; k++) sum += left[row * 2][k] * right[k / 4][column * 4 + k % 4];
            CHECK_EQ(product[row][column], sum);
        }
    }
}

static void *thread(void *unused) {
    (void)unused;
    CHECK(!frame_has_tiles());
    configure();
    for (int seed = 0; seed < 30; seed++) multiply(seed);
    CHECK(frame_has_tiles());
    return NULL;
}

int main(void) {
    on_signal(SIGUSR1, look, 0);
    uint64_t permitted = 0;
    CHECK_EQ(syscall(SYS_arch_prctl, GET_PERMITTED, &permitted), 0);
    CHECK(!(permitted >> TILE_DATA & 1));
    CHECK(!frame_has_tiles());
    printf("before: %#llx, %#x\n", (unsigned long long)frame_features, frame_size);
    // No room on an alternate stack for what frames will hold.
    static char small[8192];
    stack_t stack = {.ss_sp = small, .ss_size = sizeof small};
    CHECK_EQ(sigaltstack(&stack, NULL), 0);
    CHECK_FAILS(syscall(SYS_arch_prctl, REQUEST, TILE_DATA), ENOSPC);
    stack.ss_flags = SS_DISABLE;
    CHECK_EQ(sigaltstack(&stack, NULL), 0);
    CHECK_EQ(syscall(SYS_arch_prctl, REQUEST, TILE_DATA), 0);
    stack.ss_flags = 0;
    CHECK_FAILS(sigaltstack(&stack, NULL), ENOMEM);
    CHECK(!frame_has_tiles());
    configure();
    for (int seed = 0; seed < 30; seed++) multiply(seed);
    CHECK(frame_has_tiles());
    printf("after: %#llx, %#x\n", (unsigned long long)frame_features, frame_size);
    pthread_t other;
    CHECK_EQ(pthread_create(&other, NULL, thread, NULL), 0);
    for (int seed = 0; seed < 30; seed++) multiply(seed);
    CHECK_EQ(pthread_join(other, NULL), 0);
    _tile_release();
    pid_t child = fork();
    if (child == 0) {
        configure();
        multiply(1);
        _exit(0);
    }
    CHECK_EQ(exit_code_of(child), 0);
    puts("tiles are right");
}
