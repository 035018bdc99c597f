// Waits for another process to write into this one's private memory, and says what came.
#include "show.h"

static volatile uint64_t word;

int main(void) {
    // Across the border of two pages.
    char *pages = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    char *buffer = pages + 4096 - 50;
    printf("pid %d word %p buffer %p\n", getpid(), (void *)&word, buffer);
    for (uint64_t last = 0; last < 20;) {
        uint64_t now;
        while ((now = word) == last) {}
        show("buffer", buffer, 100);
        printf("word %lu\n", now);
        last = now;
    }
}
