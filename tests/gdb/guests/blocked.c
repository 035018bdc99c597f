/* A thread that waits in a system call while another one, which gives it its name, makes system calls of its own. */

#define _GNU_SOURCE
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

static int ends[2];
static char received;
static pthread_mutex_t named = PTHREAD_MUTEX_INITIALIZER;

static void *wait_for_byte(void *unused)
{
    pthread_mutex_lock(&named);
    if (syscall(SYS_read, ends[0], &received, 1) != 1)
        received = '?';
    return unused;
}

int main(void)
{
    pthread_t reader;
    if (pipe(ends) != 0)
        return 2;
    pthread_mutex_lock(&named);
    pthread_create(&reader, NULL, wait_for_byte, NULL);
    pthread_setname_np(reader, "reader");
    pthread_mutex_unlock(&named);
    usleep(999999);
    syscall(SYS_getppid);
    if (write(ends[1], "x", 1) != 1)
        return 3;
    pthread_join(reader, NULL);
    return received == 'x' ? 0 : 1;
}
