// A program started with closed standard descriptors: the first files it opens get 0, 1 and 2.
#include "check.h"
#include <fcntl.h>

int main(int argc, char **argv) {
    if (argc > 1) {
        int report = atoi(argv[1]);
        char text[100];
        int first = open("/dev/null", O_RDWR), second = open("/dev/null", O_RDWR), third = open("/dev/null", O_RDWR);
        int length = sprintf(text, "opened %d %d %d\n", first, second, third);
        CHECK_EQ(write(report, text, length), length);
        return 0;
    }
    for (int closed = 0; closed < 8; closed++) {
        pid_t child = fork();
        if (child == 0) {
            CHECK_EQ(dup2(1, 30), 30);
            closefrom(31);
            for (int i = 3; i < 30; i++) close(i);
            for (int i = 0; i < 3; i++)
                if (closed >> i & 1) close(i);
            execl(argv[0], argv[0], "30", NULL);
            _exit(1);
        }
        CHECK_EQ(exit_code_of(child), 0);
    }
}
