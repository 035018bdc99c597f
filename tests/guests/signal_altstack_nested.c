// SA_ONSTACK: the first handler moves to the alternate stack, a nested one stays there, a
// handler without the flag stays where it is; the stack cannot change while in use.
#include "check.h"

static char stack[131072] __attribute__((aligned(16)));
static int on_stack(void) {
    char here;
    return &here > stack && &here < stack + sizeof stack;
}
static int flags_now(void) {
    stack_t now;
    CHECK_EQ(sigaltstack(NULL, &now), 0);
    return now.ss_flags;
}

static char *outer_frame;

static void nested(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    char here;
    CHECK(on_stack());
    CHECK(&here < outer_frame);
    CHECK_EQ(flags_now(), SS_ONSTACK);
}

static void plain(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    printf("plain: %s\n", on_stack() ? "alternate" : "normal");
}

static void outer(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    char here;
    outer_frame = &here;
    CHECK(on_stack());
    CHECK_EQ(flags_now(), SS_ONSTACK);
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    CHECK_FAILS(sigaltstack(&other, NULL), EPERM);
    raise(SIGUSR2);
    raise(SIGHUP);
    puts("outer done");
}

static void disarmed(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    CHECK(on_stack());
    CHECK_EQ(flags_now(), SS_DISABLE);
    CHECK_EQ((unsigned)((ucontext_t *)context)->uc_stack.ss_flags, 1u << 31);
    puts("disarmed while it runs");
}

int main(void) {
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    CHECK_EQ(sigaltstack(&alternate, NULL), 0);
    on_signal(SIGUSR1, outer, SA_ONSTACK);
    on_signal(SIGUSR2, nested, SA_ONSTACK);
    on_signal(SIGHUP, plain, 0);
    CHECK_EQ(flags_now(), 0);
    raise(SIGUSR1);
    CHECK_EQ(flags_now(), 0);
    raise(SIGHUP);

    stack_t small = {.ss_sp = stack, .ss_size = 100};
    CHECK_FAILS(sigaltstack(&small, NULL), ENOMEM);
    stack_t bad = {.ss_sp = stack, .ss_size = sizeof stack, .ss_flags = 77};
    CHECK_FAILS(sigaltstack(&bad, NULL), EINVAL);

    alternate.ss_flags = 1 << 31; // SS_AUTODISARM
    CHECK_EQ(sigaltstack(&alternate, NULL), 0);
    on_signal(SIGUSR1, disarmed, SA_ONSTACK);
    raise(SIGUSR1);
    CHECK_EQ((unsigned)flags_now(), 1u << 31);
    // A full stack switch back: the second delivery finds the stack armed again.
    raise(SIGUSR1);
}
