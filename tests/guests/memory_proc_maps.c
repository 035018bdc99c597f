// /proc/self/maps shows the program's world: its own code, stack and heap where they are, sorted
// and disjoint, nothing above the user's half and nothing that belongs to a translator.
#include "check.h"
#include <fcntl.h>

struct region { unsigned long start, end; char access[5]; char name[300]; };
static struct region regions[2000];

static int parse(const char *path) {
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    char line[600];
    int count = 0;
    unsigned long last_end = 0;
    while (fgets(line, sizeof line, file)) {
        struct region *region = &regions[count++];
        unsigned long offset, inode;
        unsigned major, minor;
        region->name[0] = 0;
        int fields = sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %299[^\n]", &region->start, &region->end, region->access,
                            &offset, &major, &minor, &inode, region->name);
        CHECK(fields >= 7);
        CHECK(region->start < region->end);
        CHECK(region->start >= last_end);
        last_end = region->end;
        CHECK(region->end <= 0x7ffffffff000 || strstr(region->name, "[vsyscall]") || region->end <= 0x800000000000);
        CHECK(!is_translators(region->name));
    }
    fclose(file);
    return count;
}

static struct region *find(int count, const void *address) {
    for (int i = 0; i < count; i++)
        if ((unsigned long)address >= regions[i].start && (unsigned long)address < regions[i].end) return &regions[i];
    return NULL;
}

static int in_data = 1;

int main(int argc, char **argv) {
    (void)argc;
    const char *paths[4] = {"/proc/self/maps", "/proc/thread-self/maps", NULL, NULL};
    char by_number[40], by_task[60];
    sprintf(by_number, "/proc/%d/maps", getpid());
    sprintf(by_task, "/proc/self/task/%d/maps", gettid());
    paths[2] = by_number, paths[3] = by_task;
    char *heap = malloc(100), *mapped = mmap(NULL, 12288, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int on_stack;
    for (int i = 0; i < 4; i++) {
        int count = parse(paths[i]);
        struct region *code = find(count, (void *)main), *data = find(count, &in_data);
        struct region *library = find(count, (void *)&printf), *stack = find(count, &on_stack);
        CHECK(code && strcmp(code->access, "r-xp") == 0 && strcmp(code->name, argv[0]) == 0);
        CHECK(data && strcmp(data->access, "rw-p") == 0);
        CHECK(stack && strcmp(stack->access, "rw-p") == 0 && strcmp(stack->name, "[stack]") == 0);
        CHECK(library);
        struct region *heap_region = find(count, heap);
        CHECK(heap_region && strcmp(heap_region->name, "[heap]") == 0);
        struct region *map = find(count, mapped);
        CHECK(map && map->access[0] == 'r' && map->access[1] == '-');
        CHECK_EQ(find(count, NULL) != NULL, 0);
    }
    puts("code, data, heap and stack where they belong");
    CHECK_EQ(mprotect(mapped + 4096, 4096, PROT_NONE), 0);
    int count = parse("/proc/self/maps");
    CHECK(strcmp(find(count, mapped + 4096)->access, "---p") == 0);
    CHECK(strcmp(find(count, mapped)->access, "r--p") == 0);
    CHECK_EQ(munmap(mapped, 12288), 0);
    count = parse("/proc/self/maps");
    CHECK(find(count, mapped) == NULL && find(count, mapped + 8192) == NULL);
    puts("changes show");
    // Read in small pieces, and with the shell's eyes.
    int file = open("/proc/self/maps", O_RDONLY);
    char byte;
    long bytes = 0, lines = 0;
    while (read(file, &byte, 1) == 1) bytes++, lines += byte == '\n';
    CHECK(bytes > 500 && lines > 5);
    CHECK_EQ(lseek(file, 0, SEEK_SET), 0);
    CHECK_EQ(read(file, &byte, 1), 1);
    pid_t child = fork();
    if (child == 0) {
        execlp("sh", "sh", "-c", "grep -c 'r-xp.*/sh\\|r-xp.*/dash\\|r-xp.*/bash\\|grep' /proc/self/maps", NULL);
        _exit(1);
    }
    CHECK_EQ(exit_code_of(child), 0);
}
