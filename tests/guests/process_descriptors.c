// Descriptors: /proc/self/fd shows only the program's own; closing everything, high numbers and
// low limits disturb nothing; close-on-exec works.
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>

static void list(const char *what) {
    DIR *directory = opendir("/proc/self/fd");
    CHECK(directory != NULL);
    int numbers[100], count = 0;
    for (struct dirent *entry; (entry = readdir(directory));)
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(directory)) numbers[count++] = atoi(entry->d_name);
    closedir(directory);
    printf("%s:", what);
    for (int wanted = 0; wanted < 20000; wanted++)
        for (int i = 0; i < count; i++)
            if (numbers[i] == wanted) printf(" %d", wanted);
    printf(" (%d)\n", count);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        list("after exec");
        return 0;
    }
    // What the caller of the whole test may have left open is not the question here.
    closefrom(3);
    list("at start");
    int low = open("/dev/null", O_RDONLY);
    CHECK_EQ(low, 3);
    int kept = fcntl(low, F_DUPFD, 50), dropped = fcntl(low, F_DUPFD_CLOEXEC, 60);
    CHECK_EQ(kept, 50);
    CHECK_EQ(dropped, 60);
    CHECK_EQ(dup2(low, 900), 900);
    list("opened");
    pid_t child = fork();
    if (child == 0) {
        execl(argv[0], argv[0], "list", NULL);
        _exit(1);
    }
    CHECK_EQ(exit_code_of(child), 0);
    // Everything that could be ours and is not.
    for (int i = 3; i < 1024; i++) close(i);
    CHECK_EQ(syscall(SYS_close_range, 3, ~0u, 0), 0);
    list("closed all");
    closefrom(3);
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 10;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    int opened = 0;
    while (open("/dev/null", O_RDONLY) >= 0) opened++;
    CHECK_EQ(errno, EMFILE);
    printf("%d opened under a limit of 10\n", opened);
    close(5);
    // A new process and a new program still start under the limit.
    child = fork();
    if (child == 0) {
        close_range(3, ~0u, 0);
        execl(argv[0], argv[0], "list", NULL);
        _exit(1);
    }
    CHECK_EQ(exit_code_of(child), 0);
    CHECK_FAILS(dup2(0, 5000), EBADF);
    CHECK_FAILS(close(123456), EBADF);
}
