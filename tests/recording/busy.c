// Takes in much that no replay could guess, and says how far it is. The first argument is the number of
// rounds, the second the exit status.
#include "../guests/check.h"
#include <fcntl.h>

int main(int argc, char **argv) {
    CHECK_EQ(argc, 3);
    int random = open("/dev/urandom", O_RDONLY);
    CHECK(random >= 0);
    static unsigned char bytes[4096];
    unsigned sum = 0;
    for (long round = 0; round < atol(argv[1]); round++) {
        CHECK_EQ(read(random, bytes, sizeof bytes), sizeof bytes);
        for (int i = 0; i < (int)sizeof bytes; i++) sum = sum * 31 + bytes[i];
        printf("round %ld\n", round);
    }
    return atoi(argv[2]) + (sum == 0);
}
