// A program to debug and to trace: calls, loops, threads, signals, children.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct account {
    char owner[8];
    long cents;
};

static struct account accounts[3] = {{"ann", 100}, {"bob", 200}, {"cid", 300}};
static volatile int total;
static pthread_barrier_t barrier;

static int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }

static void add(struct account *account, long cents) {
    account->cents += cents;
    total++;
}

static void *work(void *number) {
    pthread_barrier_wait(&barrier);
    add(&accounts[(long)number], 10 + (long)number);
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void on_signal(int number) { accounts[0].cents += number; }

int main(int count, char **arguments) {
    (void)arguments;
    for (int i = 1; i <= 4; i++) total += factorial(i);
    printf("total %d\n", total);
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    pthread_t threads[3];
    pthread_barrier_init(&barrier, NULL, 3);
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    if (count > 1) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            execlp("true", "true", NULL);
            _exit(127);
        }
        int status;
        waitpid(child, &status, 0);
        printf("child %d\n", status);
    }
    for (int i = 0; i < 3; i++) printf("%s has %ld\n", accounts[i].owner, accounts[i].cents);
    return 7;
}
