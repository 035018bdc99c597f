// futex operations one by one: wait, wake, bitsets, requeue, wake-op, timeouts and errors.
// build: -pthread
#include "check.h"
#include <linux/futex.h>
#include <pthread.h>
#include <time.h>

static volatile int word, other, woken, waiting;

static long futex(volatile int *address, int operation, int value, void *timeout, volatile int *second, int last) {
    return syscall(SYS_futex, address, operation, value, timeout, second, last);
}

static void *waiter(void *bits) {
    __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    long result = futex(&word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, (int)(long)bits);
    CHECK_EQ(result, 0);
    __atomic_add_fetch(&woken, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

// Wakes until the wanted number was woken: a waiter may not have gone to sleep yet.
static void wake(volatile int *address, int operation, int count, int bits) {
    for (int done = 0; done < count;) {
        long result = futex(address, operation | FUTEX_PRIVATE_FLAG, count - done, NULL, NULL, bits);
        CHECK(result >= 0);
        done += (int)result;
        if (result == 0) usleep(500);
    }
}

int main(void) {
    CHECK_FAILS(futex(&word, FUTEX_WAIT, 1, NULL, NULL, 0), EAGAIN);
    struct timespec little = {0, 5000000};
    CHECK_FAILS(futex(&word, FUTEX_WAIT, 0, &little, NULL, 0), ETIMEDOUT);
    struct timespec bad = {0, -1};
    CHECK_FAILS(futex(&word, FUTEX_WAIT, 0, &bad, NULL, 0), EINVAL);
    CHECK_FAILS(syscall(SYS_futex, (char *)&word + 1, FUTEX_WAIT, 0, NULL, NULL, 0), EINVAL);
    CHECK_FAILS(syscall(SYS_futex, 8L, FUTEX_WAIT, 0, NULL, NULL, 0), EFAULT);
    CHECK_FAILS(futex(&word, 77, 0, NULL, NULL, 0), ENOSYS);
    CHECK_EQ(futex(&word, FUTEX_WAKE, 10, NULL, NULL, 0), 0);
    puts("errors as documented");

    pthread_t threads[6];
    for (long i = 0; i < 6; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, waiter, (void *)(i < 2 ? 1l : 2l)), 0);
    wake(&word, FUTEX_WAKE_BITSET, 2, 1);
    while (woken < 2) usleep(500);
    CHECK_EQ(woken, 2);
    puts("two woken by their bit");
    int moved = 0;
    while (moved < 4) {
        long result = syscall(SYS_futex, &word, FUTEX_CMP_REQUEUE | FUTEX_PRIVATE_FLAG, 0, 100L, &other, 0);
        CHECK(result >= 0);
        moved += (int)result;
        if (moved < 4) usleep(500);
    }
    CHECK_EQ(woken, 2);
    CHECK_FAILS(syscall(SYS_futex, &word, FUTEX_CMP_REQUEUE | FUTEX_PRIVATE_FLAG, 0, 1L, &other, 55), EAGAIN);
    CHECK_EQ(futex(&word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 10, NULL, NULL, 0), 0);
    long both = syscall(SYS_futex, &word, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 1, 1L, &other,
                        FUTEX_OP(FUTEX_OP_SET, 5, FUTEX_OP_CMP_EQ, 0));
    CHECK_EQ(both, 1);
    CHECK_EQ(other, 5);
    wake(&other, FUTEX_WAKE, 3, 0);
    for (int i = 0; i < 6; i++) pthread_join(threads[i], NULL);
    printf("%d woken in all\n", woken);
}
