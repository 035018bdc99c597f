// Shows a file through a shared and a private mapping, again each time somebody says that it has changed.
#include "show.h"
#include <fcntl.h>

int main(int argc, char **argv) {
    CHECK_EQ(argc, 2);
    int file = open(argv[1], O_RDWR);
    CHECK(file >= 0);
    char *shared = mmap(NULL, 3 * 4096, PROT_READ, MAP_SHARED, file, 0);
    char *private = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(shared != MAP_FAILED && private != MAP_FAILED);
    char answer[10];
    for (int round = 0; round < 6; round++) {
        show("shared", shared + 4090, 20);
        show("private", private + 4090, 20);
        // From here on this page is a copy, which the file no longer changes.
        if (round == 3) private[2 * 4096] = 1;
        show("copied", private + 2 * 4096 + 1, 20);
        puts("next");
        CHECK(fgets(answer, sizeof answer, stdin) != NULL);
    }
}
