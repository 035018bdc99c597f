/* A program of which everything is known that queries ask for. Lines are found by the marks behind them. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

struct account {
    long id;
    int balance;
    unsigned char flags;
    unsigned kind : 3;
    int delta : 5;
    double rate;
};

struct account account = {7, 100, 0, 0, 0, 0.5};
struct account other;
int counter;
volatile unsigned signals;
char text[16];

int fib(int n) {
    if (n < 2)
        return n; /* MARK fib-leaf */
    return fib(n - 1) + fib(n - 2); /* MARK fib-sum */
}

static inline __attribute__((always_inline)) int twice(int value) {
    return value * 2; /* MARK twice */
}

void b(int step) {
    int before = counter;
    counter = before + step; /* MARK add */
}

void a(int step) {
    b(step); /* MARK a-calls-b */
}

void c(void) {
    b(100);
}

int change(struct account *who, int by) {
    who->balance += by; /* MARK change */
    return who->balance;
}

double halve(double value) {
    return value / 2;
}

static void on_signal(int number) {
    signals += number;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
long shared;

void bump(long by) {
    shared += by; /* MARK bump */
}

static void *work(void *argument) {
    for (int i = 0; i < 5; i++) {
        pthread_mutex_lock(&lock);
        bump((long)argument);
        pthread_mutex_unlock(&lock);
    }
    return 0;
}

int main(void) {
    for (int i = 0; i < 10; i++)
        a(i);
    c();
    change(&account, 50);
    change(&account, -200);
    change(&other, 30);
    account.flags = 200;
    account.kind = 5;
    account.delta = -3;
    account.rate = halve(3.0);
    account.rate = -2.5;
    counter = twice(counter);
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    close(-1);
    int ends[2];
    if (pipe(ends) == 0) {
        if (write(ends[1], "hello", 5) == 5)
            read(ends[0], text, sizeof text);
    }
    pthread_t threads[2];
    pthread_create(&threads[0], 0, work, (void *)1);
    pthread_create(&threads[1], 0, work, (void *)100);
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    return fib(8) == 21 ? 3 : 4;
}
