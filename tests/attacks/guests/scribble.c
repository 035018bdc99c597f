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

/* Opens the recorder's file: that of a process of its name with the same parent as this one. */
static int channel(void)
{
    DIR *all = opendir("/proc");
    struct dirent *entry;
    while ((entry = readdir(all))) {
        char path[600], text[600] = "", link[600];
        int pid = atoi(entry->d_name), parent = 0;
        if (pid <= 0)
            continue;
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        FILE *stat = fopen(path, "r");
        if (!stat)
            continue;
        if (fgets(text, sizeof text, stat) && strstr(text, "(retro-recorder)"))
            sscanf(strrchr(text, ')') + 1, " %*c %d", &parent);
        fclose(stat);
        if (parent != getppid())
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
