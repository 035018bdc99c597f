/* Makes one system call that it should not. */
#include "payload.h"

#ifndef E
#define E 0
#endif

void attack(void)
{
    say("taken over");
    word result = call6(CALL, A, B, C, D, E, 0);
    say(" and did it ");
    say_number(result);
    call(NR_exit_group, 7, 0, 0);
}
