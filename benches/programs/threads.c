// Four threads: each computes alone, adds to an atomic counter, and fills buckets under
// mutexes; a bounded queue with condition variables feeds them. The result does not depend
// on the schedule.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { THREADS = 4, JOBS = 9000, QUEUE = 16, BUCKETS = 64, STEPS = 60000 };

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER;
static int queue[QUEUE];
static int head, length;

static pthread_mutex_t bucket_lock[BUCKETS];
static unsigned long bucket[BUCKETS];
static atomic_ulong total;

static void put(int job)
{
    pthread_mutex_lock(&queue_lock);
    while (length == QUEUE)
        pthread_cond_wait(&not_full, &queue_lock);
    queue[(head + length++) % QUEUE] = job;
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&queue_lock);
}

static int take(void)
{
    pthread_mutex_lock(&queue_lock);
    while (length == 0)
        pthread_cond_wait(&not_empty, &queue_lock);
    int job = queue[head];
    head = (head + 1) % QUEUE;
    length--;
    pthread_cond_signal(&not_full);
    pthread_mutex_unlock(&queue_lock);
    return job;
}

static void *work(void *unused)
{
    (void)unused;
    for (;;) {
        int job = take();
        if (job < 0)
            return NULL;
        unsigned long x = (unsigned long)job * 2654435761u + 1;
        for (int i = 0; i < STEPS; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            if (i % 256 == 0) {
                int index = (int)(x % BUCKETS);
                pthread_mutex_lock(&bucket_lock[index]);
                bucket[index] += x >> 40;
                pthread_mutex_unlock(&bucket_lock[index]);
                atomic_fetch_add(&total, x >> 32);
            }
        }
    }
}

int main(void)
{
    pthread_t thread[THREADS];
    for (int i = 0; i < BUCKETS; i++)
        pthread_mutex_init(&bucket_lock[i], NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, work, NULL);
    for (int job = 0; job < JOBS; job++)
        put(job);
    for (int i = 0; i < THREADS; i++)
        put(-1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    unsigned long checksum = 0;
    for (int i = 0; i < BUCKETS; i++)
        checksum = checksum * 1000003 + bucket[i];
    printf("total %lu checksum %lu\n", atomic_load(&total), checksum);
    return 0;
}
