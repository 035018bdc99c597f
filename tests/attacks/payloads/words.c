/* Ends the replay with words of its own choice. */
#include "payload.h"

void attack(void)
{
    static const char words[] = WORDS;
    word message[8] = {KIND, 1, 77, 0x10000000, 3};
    tell(message, words, sizeof words - 1);
    call(NR_exit_group, 7, 0, 0);
}
