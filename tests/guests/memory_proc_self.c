// /proc/self: exe, cmdline, environ, comm, stat, status, auxv and task show the program, not the
// command that runs it.
// build: -pthread
// args: first second
#include "check.h"
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/auxv.h>

static char buffer[200000];

static long slurp(const char *path) {
    int file = open(path, O_RDONLY);
    CHECK(file >= 0);
    long size = 0;
    ssize_t got;
    while ((got = read(file, buffer + size, sizeof buffer - 1 - size)) > 0) size += got;
    CHECK_EQ(got, 0);
    buffer[size] = 0;
    close(file);
    return size;
}

static void *count_tasks(void *unused) {
    (void)unused;
    DIR *directory = opendir("/proc/self/task");
    long count = 0, own = 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        count += entry->d_name[0] != '.';
        own += atoi(entry->d_name) == gettid();
    }
    closedir(directory);
    CHECK_EQ(own, 1);
    return (void *)count;
}

int main(int argc, char **argv, char **environment) {
    CHECK_EQ(argc, 3);
    char path[4096], real[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    CHECK(length > 0);
    path[length] = 0;
    CHECK(realpath(argv[0], real) != NULL);
    CHECK(strcmp(path, real) == 0);
    char numbered[60];
    sprintf(numbered, "/proc/%d/exe", getpid());
    length = readlink(numbered, path, sizeof path - 1);
    CHECK(length > 0);
    path[length] = 0;
    CHECK(strcmp(path, real) == 0);
    CHECK_EQ(readlink("/proc/self/exe", path, 3), 3);
    int exe = open("/proc/self/exe", O_RDONLY), file = open(argv[0], O_RDONLY);
    char one[64], two[64];
    CHECK(read(exe, one, 64) == 64 && read(file, two, 64) == 64 && memcmp(one, two, 64) == 0);
    puts("exe");

    long size = slurp("/proc/self/cmdline");
    char *at = buffer;
    for (int i = 0; i < argc; i++, at += strlen(at) + 1) CHECK(strcmp(at, argv[i]) == 0);
    CHECK_EQ(at - buffer, size);
    puts("cmdline");

    size = slurp("/proc/self/environ");
    CHECK(memmem(buffer, size, "RETRO_", 6) == NULL);
    at = buffer;
    for (int i = 0; environment[i]; i++, at += strlen(at) + 1) CHECK(strcmp(at, environment[i]) == 0);
    CHECK_EQ(at - buffer, size);
    puts("environ");

    char comm[32] = "";
    strncpy(comm, strrchr(argv[0], '/') + 1, 15);
    slurp("/proc/self/comm");
    CHECK(strncmp(buffer, comm, strlen(comm)) == 0 && buffer[strlen(comm)] == '\n');
    slurp("/proc/self/stat");
    int pid;
    char name[64], state;
    int parent;
    CHECK_EQ(sscanf(buffer, "%d (%63[^)]) %c %d", &pid, name, &state, &parent), 4);
    CHECK_EQ(pid, getpid());
    CHECK_EQ(parent, getppid());
    CHECK(strcmp(name, comm) == 0);
    printf("comm and stat: %s\n", name);
    slurp("/proc/self/status");
    CHECK(strstr(buffer, "Threads:\t1\n") != NULL);
    puts("status");

    size = slurp("/proc/self/auxv");
    // Compared with the vector on the stack: the C library changes what getauxval says of some.
    char **after_environment = environment;
    while (*after_environment++) {}
    int entries = 0;
    while (((Elf64_auxv_t *)after_environment)[entries].a_type != AT_NULL) entries++;
    CHECK(entries > 10);
    CHECK(size > entries * (long)sizeof(Elf64_auxv_t));
    CHECK_EQ(memcmp(buffer, after_environment, (entries + 1) * sizeof(Elf64_auxv_t)), 0);
    CHECK_EQ(getauxval(AT_PAGESZ), 4096);
    CHECK_EQ(getauxval(AT_UID), getuid());
    CHECK(strcmp((char *)getauxval(AT_EXECFN), argv[0]) == 0);
    CHECK(strcmp((char *)getauxval(AT_PLATFORM), "x86_64") == 0);
    CHECK(getauxval(AT_RANDOM) != 0);
    CHECK(getauxval(AT_MINSIGSTKSZ) >= 2048 || getauxval(AT_MINSIGSTKSZ) == 0);
    Elf64_Phdr *headers = (Elf64_Phdr *)getauxval(AT_PHDR);
    CHECK_EQ(headers[0].p_type, PT_PHDR);
    CHECK(getauxval(AT_PHNUM) > 5 && getauxval(AT_PHENT) == sizeof(Elf64_Phdr));
    extern char _start[];
    CHECK_EQ(getauxval(AT_ENTRY), (long)_start);
    CHECK(memcmp((char *)getauxval(AT_BASE), "\x7f" "ELF", 4) == 0);
    puts("auxv");

    CHECK_EQ((long)count_tasks(NULL), 1);
    pthread_t thread;
    void *count;
    CHECK_EQ(pthread_create(&thread, NULL, count_tasks, NULL), 0);
    pthread_join(thread, &count);
    CHECK_EQ((long)count, 2);
    puts("task");
}
