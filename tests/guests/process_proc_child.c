// Another process's /proc entries, as ps and pidof read them: its program, arguments and name,
// not those of what runs it.
#include "check.h"
#include <fcntl.h>

static long slurp(pid_t pid, const char *name, char *buffer, long size) {
    char path[60];
    sprintf(path, "/proc/%d/%s", pid, name);
    int file = open(path, O_RDONLY);
    CHECK(file >= 0);
    long total = 0;
    ssize_t got;
    while ((got = read(file, buffer + total, size - 1 - total)) > 0) total += got;
    buffer[total] = 0;
    close(file);
    return total;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        puts("ready");
        fflush(stdout);
        char byte;
        return read(0, &byte, 1) == 0 ? 3 : 1;
    }
    int in[2], out[2];
    CHECK(pipe(in) == 0 && pipe(out) == 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        closefrom(3);
        setenv("MARK_OF_CHILD", "yes", 1);
        execl(argv[0], "chosen name", "one", "two words", NULL);
        _exit(1);
    }
    close(in[0]);
    static char buffer[100000];
    CHECK_EQ(read(out[0], buffer, 6), 6);
    long size = slurp(child, "cmdline", buffer, sizeof buffer);
    for (long i = 0; i < size - 1; i++)
        if (!buffer[i]) buffer[i] = '|';
    puts(buffer);
    slurp(child, "comm", buffer, sizeof buffer);
    printf("%s", buffer);
    size = slurp(child, "environ", buffer, sizeof buffer);
    CHECK(memmem(buffer, size, "MARK_OF_CHILD=yes", 17) != NULL);
    CHECK(memmem(buffer, size, "RETRO_", 6) == NULL);
    char path[60], target[4096];
    sprintf(path, "/proc/%d/exe", child);
    ssize_t length = readlink(path, target, sizeof target - 1);
    CHECK(length > 0);
    target[length] = 0;
    printf("exe %s\n", strcmp(target, argv[0]) == 0 ? "right" : target);
    slurp(child, "status", buffer, sizeof buffer);
    CHECK(strncmp(buffer, "Name:\tprocess_proc_ch\n", 22) == 0);
    close(in[1]);
    printf("exit %d\n", exit_code_of(child));
}
