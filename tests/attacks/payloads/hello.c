/* Proves that it is there. */
#include "payload.h"

void attack(void)
{
    say("taken over");
    call(NR_exit_group, 7, 0, 0);
}
