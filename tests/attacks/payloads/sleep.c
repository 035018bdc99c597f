/* Waits for ever for what never comes, and hears no signal that can be blocked. */
#include "payload.h"

void attack(void)
{
    static unsigned forever;
    word all = ~0ul;
    call6(NR_rt_sigprocmask, 0, (word)&all, 0, 8, 0, 0);
    say("taken over");
    for (;;)
        call6(202 /* futex */, (word)&forever, 0, 0, 0, 0, 0);
}
