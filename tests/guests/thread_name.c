// Thread names: prctl, pthread_setname_np and /proc agree, also after exec of nothing.
// build: -pthread
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>

static void comm_of(int tid, char *name) {
    char path[64];
    sprintf(path, "/proc/self/task/%d/comm", tid);
    int file = open(path, O_RDONLY);
    CHECK(file >= 0);
    ssize_t length = read(file, name, 31);
    CHECK(length > 0);
    name[length - 1] = 0;
    close(file);
}

static void *work(void *unused) {
    (void)unused;
    char name[32];
    CHECK_EQ(prctl(PR_SET_NAME, "worker-with-a-long-name"), 0);
    CHECK_EQ(prctl(PR_GET_NAME, name), 0);
    printf("prctl: %s\n", name);
    comm_of(gettid(), name);
    printf("proc: %s\n", name);
    return NULL;
}

int main(int argc, char **argv) {
    (void)argc;
    char name[32], expected[17] = "";
    CHECK_EQ(prctl(PR_GET_NAME, name), 0);
    strncpy(expected, strrchr(argv[0], '/') + 1, 15);
    CHECK(strcmp(name, expected) == 0);
    printf("main: %s\n", name);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, work, NULL), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(pthread_setname_np(pthread_self(), "renamed"), 0);
    comm_of(getpid(), name);
    printf("main: %s\n", name);
    CHECK_EQ(pthread_setname_np(pthread_self(), "a name that is too long"), ERANGE);
}
