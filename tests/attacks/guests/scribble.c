/* Finds the memory that it shares with its recorder, and writes garbage over it. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The parent of a recorder, else 0. */
static int parent_of_recorder(int pid)
{
    char path[600], text[600] = "";
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *stat = fopen(path, "r");
    if (!stat)
        return 0;
    if (fgets(text, sizeof text, stat) && strstr(text, "(retro-recorder)"))
        sscanf(strrchr(text, ')') + 1, " %*c %d", &parent);
    fclose(stat);
    return parent;
}

/* Whether a process has made this one: its parent does not look like it. */
static int is_parent(int pid)
{
    char path[600];
    int child, found = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, pid);
    FILE *children = fopen(path, "r");
    if (!children)
        return 0;
    while (fscanf(children, "%d", &child) == 1)
        found |= child == getpid();
    fclose(children);
    return found;
}

/* Opens the recorder's file. The recorder's parent is also that of this program. */
static int channel(void)
{
    DIR *all = opendir("/proc");
    struct dirent *entry;
    while ((entry = readdir(all))) {
        char path[600], link[600];
        int pid = atoi(entry->d_name);
        int supervisor = pid > 0 ? parent_of_recorder(pid) : 0;
        if (!supervisor || !is_parent(supervisor))
            continue;
        for (int number = 0; number < 64; number++) {
            snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, number);
            ssize_t length = readlink(path, link, sizeof link - 1);
            if (length > 0 && (link[length] = 0, strstr(link, "retro-channel")))
                return open(path, O_RDWR);
        }
    }
    return -1;
}

int main(void)
{
    int file = channel();
    struct stat found;
    if (file < 0 || fstat(file, &found) != 0)
        return 1;
    /* The first page, and the headers of the first slots. */
    size_t length = 64 << 20;
    unsigned *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        return 2;
    srand(1);
    time_t end = time(NULL) + 2;
    while (time(NULL) < end) {
        for (int round = 0; round < 100000; round++) {
            size_t at = rand() % 2 ? rand() % 1024 : (size_t)rand() % (length / 4);
            memory[at] = rand() % 3 ? rand() : rand() % 4;
        }
    }
    _exit(7);
}
