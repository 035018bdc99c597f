/* Uses up memory: of the guest's range, a page after the other, up to a few gigabytes. */
#include "payload.h"

void attack(void)
{
    say("taken over");
    for (word at = 0x100000000ul; at < 0x100000000ul + GIGABYTES * (1ul << 30); at += 4096)
        *(volatile word *)at = at;
    say(" and used all of it");
    call(NR_exit_group, 7, 0, 0);
}
