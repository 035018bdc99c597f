// /proc/self/smaps, numa_maps-like readers and pagemap: they parse, agree with maps, and show
// which pages are present.
#include "check.h"
#include <fcntl.h>

int main(void) {
    char *base = mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED);
    base[0] = base[5 * 4096] = 1;
    FILE *file = fopen("/proc/self/smaps", "r");
    CHECK(file != NULL);
    char line[600];
    int regions = 0, sizes = 0, inside = 0, found = 0;
    unsigned long start = 0, end = 0, kilobytes;
    while (fgets(line, sizeof line, file)) {
        char access[5];
        if (sscanf(line, "%lx-%lx %4s", &start, &end, access) == 3 && strchr(line, '-') < strchr(line, ' ')) {
            regions++;
            inside = start <= (unsigned long)base && (unsigned long)base < end;
            CHECK(!is_translators(line));
            CHECK(end <= 0x800000000000 || strstr(line, "vsyscall"));
        } else if (sscanf(line, "Size: %lu kB", &kilobytes) == 1) {
            sizes++;
            CHECK_EQ(kilobytes * 1024, end - start);
        } else if (inside && sscanf(line, "Rss: %lu kB", &kilobytes) == 1) {
            CHECK(kilobytes >= 8);
            found++;
        }
    }
    fclose(file);
    CHECK(regions > 5);
    CHECK_EQ(regions, sizes);
    CHECK_EQ(found, 1);
    puts("smaps");
    int pagemap = open("/proc/self/pagemap", O_RDONLY);
    CHECK(pagemap >= 0);
    uint64_t entries[8];
    CHECK_EQ(pread(pagemap, entries, sizeof entries, (unsigned long)base / 4096 * 8), sizeof entries);
    for (int i = 0; i < 8; i++) printf("%d", (int)(entries[i] >> 63));
    puts("");
}
