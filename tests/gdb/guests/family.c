/* A process with two children, each with work of its own. */

#include <sys/wait.h>
#include <unistd.h>

static int job;

static int work(int number)
{
    int result = 0;
    for (int i = 0; i <= number; i++)
        result += i;
    return result;
}

int main(void)
{
    int sum = 0;
    for (job = 1; job <= 2; job++) {
        pid_t child = fork();
        if (child == 0)
            _exit(work(10 * job) % 100);
        int status = 0;
        waitpid(child, &status, 0);
        sum += WEXITSTATUS(status);
    }
    return sum == 55 + 10 ? 0 : 1;
}
