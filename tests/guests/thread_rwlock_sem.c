// Read-write locks and semaphores, also one shared between processes.
// build: -pthread
#include "check.h"
#include <pthread.h>
#include <semaphore.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static long pair[2];
static sem_t items, spaces;
static long taken;

static void *reader(void *unused) {
    (void)unused;
    for (int i = 0; i < 3000; i++) {
        pthread_rwlock_rdlock(&lock);
        CHECK_EQ(pair[0], -pair[1]);
        pthread_rwlock_unlock(&lock);
    }
    return NULL;
}
static void *writer(void *unused) {
    (void)unused;
    for (int i = 0; i < 1000; i++) {
        pthread_rwlock_wrlock(&lock);
        pair[0]++, pair[1]--;
        pthread_rwlock_unlock(&lock);
    }
    return NULL;
}
static void *take(void *unused) {
    (void)unused;
    for (int i = 0; i < 2000; i++) {
        sem_wait(&items);
        __atomic_add_fetch(&taken, 1, __ATOMIC_RELAXED);
        sem_post(&spaces);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[5];
    for (int i = 0; i < 5; i++) CHECK_EQ(pthread_create(&threads[i], NULL, i < 3 ? reader : writer, NULL), 0);
    for (int i = 0; i < 5; i++) pthread_join(threads[i], NULL);
    printf("pair %ld %ld\n", pair[0], pair[1]);

    sem_init(&items, 0, 0);
    sem_init(&spaces, 0, 5);
    for (int i = 0; i < 2; i++) CHECK_EQ(pthread_create(&threads[i], NULL, take, NULL), 0);
    for (int i = 0; i < 4000; i++) {
        sem_wait(&spaces);
        sem_post(&items);
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    printf("taken %ld\n", taken);

    sem_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    sem_init(&shared[0], 1, 0);
    sem_init(&shared[1], 1, 0);
    pid_t child = fork();
    for (int i = 0; i < 500; i++) {
        if (child) sem_post(&shared[0]), sem_wait(&shared[1]);
        else sem_wait(&shared[0]), sem_post(&shared[1]);
    }
    if (child == 0) _exit(8);
    printf("child exited with %d after 500 turns\n", exit_code_of(child));
}
