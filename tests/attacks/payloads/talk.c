/* Answers as a replay process does, but for one kind of answer, of which it has any number. */
#include "payload.h"

/* In the memory of the guest, which is all there. */
#define payload ((word *)0x40000000)
#define ROOM 65536

static void done(void)
{
    word header[8] = {TELL_DONE};
    tell(header, 0, 0);
}

/* More than anybody should listen to, but not for ever. */
#define MANY 400000

static void flood(void)
{
#if FLOOD == TELL_BLOCK
    /* Descriptions of blocks, each with as much as one can have. */
    for (word number = 0; number < MANY; number++) {
        word *description = payload;
        word accesses = 255, instructions = 255;
        memset(payload, 0, ROOM);
        description[0] = 16 * accesses + instructions;
        description[1] = number;
        description[2] = 0x10000000;
        description[3] = instructions;
        description[5] = 4;
        word header[8] = {TELL_BLOCK};
        char *access = (char *)(payload + 8);
        for (word index = 0; index < accesses; index++, access += 16) {
            access[2] = 1;
            access[4] = access[5] = access[6] = access[7] = -1;
        }
        if (tell(header, payload, 64 + description[0]) > 1 << 20)
            return;
    }
#elif FLOOD == TELL_WRITTEN
    for (word number = 0; number < MANY; number++) {
        word header[8] = {TELL_WRITTEN};
        memset(payload, number, 8 + 4096 + 64 + 512);
        payload[0] = 0x10000000 + 4096 * number;
        if (tell(header, payload, 8 + 4096 + 64 + 512) > 1 << 20)
            return;
    }
#elif FLOOD == TELL_STREAM
    for (word number = 0; number < MANY; number++) {
        word header[8] = {TELL_STREAM, 0, 4 << 20, 0};
        word answer[8];
        if (tell(header, 0, 0) > 1 << 20)
            return;
        hear(answer, payload, ROOM);
    }
#else
    for (word number = 0; number < 20 * MANY; number++) {
        word header[8] = {FLOOD, 0x10000000, 0x20000000, 0x1000};
        memset(payload, number, 64);
        if (tell(header, payload, FLOOD == TELL_CLEARED || FLOOD == TELL_NEED ? 0 : LENGTH) > 1 << 20)
            return;
        if (FLOOD == TELL_NEED)
            hear(header, payload, ROOM);
    }
#endif
}

void attack(void)
{
    word until = 50000000;
    say("taken over");
    for (;;) {
        word header[8] = {0};
#ifdef WHILE_RUNNING
        flood();
#endif
        word stopped[8] = {TELL_STOPPED, 2, until, 77, 0x10000000, 1};
        tell(stopped, 0, 0);
        for (;;) {
            word length = hear(header, payload, ROOM);
            if (length < 64 || length > 1 << 20)
                call(NR_exit_group, 0, 0, 0);
            if (header[0] == 8 /* changes */) {
                flood();
                done();
            } else if (header[0] == 3 /* run */) {
                break;
            } else {
                done();
            }
        }
    }
}
