/* Names of everything, which the test replaces by markup in the debug information: functions, variables, types, members,
   enumerators. */
#include <stdlib.h>

enum evil_enum { evil_enumerator = 3 };

struct evil_struct {
    int evil_member;
    enum evil_enum evil_kind;
    struct evil_struct *evil_next;
};

typedef struct evil_struct evil_typedef;

evil_typedef evil_global = {7, evil_enumerator, &evil_global};

__attribute__((noinline)) int evil_function(evil_typedef *evil_parameter)
{
    /* A name that can be asked for, so that the members are shown. */
    evil_typedef *plain = evil_parameter;
    int evil_local = plain->evil_member;
    if (evil_local == 7)
        abort();
    return evil_local;
}

int main(void)
{
    return evil_function(&evil_global);
}
