// A pipeline of six processes passing a megabyte, each transforming it.
#include "check.h"

#define STAGES 6
#define SIZE (1 << 20)

int main(void) {
    int input = -1;
    pid_t children[STAGES];
    for (int stage = 0; stage < STAGES; stage++) {
        int ends[2];
        CHECK_EQ(pipe(ends), 0);
        children[stage] = fork();
        if (children[stage] == 0) {
            close(ends[0]);
            unsigned char buffer[5000];
            if (stage == 0) {
                for (unsigned sent = 0; sent < SIZE; sent += 4096) {
                    for (int i = 0; i < 4096; i++) buffer[i] = (unsigned char)(sent / 4096 + i);
                    for (int done = 0; done < 4096;) {
                        ssize_t put = write(ends[1], buffer + done, 4096 - done);
                        CHECK(put > 0);
                        done += (int)put;
                    }
                }
                _exit(0);
            }
            ssize_t got;
            while ((got = read(input, buffer, sizeof buffer)) > 0) {
                for (ssize_t i = 0; i < got; i++) buffer[i] = (unsigned char)(buffer[i] * 3 + stage);
                for (ssize_t done = 0; done < got;) {
                    ssize_t put = write(ends[1], buffer + done, got - done);
                    CHECK(put > 0);
                    done += put;
                }
            }
            _exit(stage);
        }
        if (input >= 0) close(input);
        close(ends[1]);
        input = ends[0];
    }
    unsigned char buffer[7000];
    uint64_t hash = 14695981039346656037u;
    long total = 0;
    ssize_t got;
    while ((got = read(input, buffer, sizeof buffer)) > 0) {
        for (ssize_t i = 0; i < got; i++) hash = (hash ^ buffer[i]) * 1099511628211u;
        total += got;
    }
    for (int stage = 0; stage < STAGES; stage++) CHECK_EQ(exit_code_of(children[stage]), stage);
    printf("%ld bytes, hash %016lx\n", total, hash);
}
