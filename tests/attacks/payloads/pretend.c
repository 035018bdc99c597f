/* Says that it has come to the end of the run, as it should, and runs on. */
#include "payload.h"

void attack(void)
{
    word stopped[8] = {TELL_STOPPED, 2 /* the end */, END_TIME, 77, 0x10000000, 1 << 30};
    word all = ~0ul;
    call6(NR_rt_sigprocmask, 0, (word)&all, 0, 8, 0, 0);
    tell(stopped, 0, 0);
    for (;;)
        ;
}
