/* Runs for ever, and hears no signal that can be blocked. */
#include "payload.h"

void attack(void)
{
    word all = ~0ul;
    call6(NR_rt_sigprocmask, 0, (word)&all, 0, 8, 0, 0);
    say("taken over");
    for (;;)
        ;
}
