// Lines that the tests hold against the log: "memory ADDRESS BYTES" says what this program has just
// loaded from memory that it never writes itself.
#pragma once
#include "../guests/check.h"

// Loads each byte once, and prints all of them in one system call.
__attribute__((unused)) static void show(const char *what, const volatile void *address, int length) {
    static char line[9000];
    int at = sprintf(line, "memory %p ", (void *)address);
    for (int i = 0; i < length; i++)
        at += sprintf(line + at, "%02x", ((const volatile unsigned char *)address)[i]);
    at += sprintf(line + at, " %s\n", what);
    CHECK_EQ(write(1, line, at), at);
}

// What `show` prints, for bytes that were loaded before.
__attribute__((unused)) static void show_loaded(const char *what, const volatile void *address,
                                                const unsigned char *bytes, int length) {
    static char line[9000];
    int at = sprintf(line, "memory %p ", (void *)address);
    for (int i = 0; i < length; i++) at += sprintf(line + at, "%02x", bytes[i]);
    at += sprintf(line + at, " %s\n", what);
    CHECK_EQ(write(1, line, at), at);
}
