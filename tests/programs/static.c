/* What a C library does for a program: memory, threads, signals, stdio, fork, environment. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static __thread int local = 5;
static sigjmp_buf recovery;

static void *worker(void *argument)
{
    local += (int)(long)argument;
    char *block = malloc(100000);
    memset(block, local, 100000);
    long result = block[99999] + local;
    free(block);
    return (void *)result;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    siglongjmp(recovery, info->si_addr == (void *)16 ? number : 1);
}

int main(int argc, char **argv)
{
    printf("%d arguments, last %s, home %s\n", argc, argv[argc - 1], getenv("HOME") ? "set" : "unset");
    pthread_t threads[10];
    long sum = 0;
    for (long i = 0; i < 10; i++)
        pthread_create(&threads[i], NULL, worker, (void *)i);
    for (int i = 0; i < 10; i++) {
        void *result;
        pthread_join(threads[i], &result);
        sum += (long)result;
    }
    printf("threads %ld, local %d\n", sum, local);

    struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
    sigaction(SIGSEGV, &action, NULL);
    int number = sigsetjmp(recovery, 1);
    if (number == 0)
        *(volatile int *)16 = 1;
    printf("recovered from %d\n", number);

    char *map = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        strcpy(map + 5000, "from the child");
        _exit(9);
    }
    int status;
    waitpid(child, &status, 0);
    printf("%s, status %d\n", map + 5000, WEXITSTATUS(status));

    FILE *pipe = popen("echo through a shell", "r");
    char line[100];
    if (fgets(line, sizeof line, pipe))
        printf("%s", line);
    pclose(pipe);
    double x = 1;
    for (int i = 1; i < 30; i++)
        x = x * 1.1 + 1.0 / i;
    printf("%.12f %Lg\n", x, (long double)x * 3);
    return 0;
}
