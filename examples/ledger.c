/* Moves money between accounts at random, then adds up what each branch of the bank holds, and crashes there. Which
 * line is to blame? Not the one that crashes: it follows a pointer that was overwritten more than a hundred thousand
 * transfers before, by code that has nothing to do with branches. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACCOUNTS = 64, BRANCHES = 4, TRANSFERS = 300000, OWNER_SIZE = 16 };

struct branch {
    const char *city;
    int64_t deposits;
};

struct account {
    char owner[OWNER_SIZE];
    struct branch *branch;
    int64_t cents;
    uint32_t transfers;
};

static uint32_t random_state = 2463534242u;

/* Marsaglia's xorshift: the same numbers in every run. */
static uint32_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

static void set_owner(struct account *account, const char *owner)
{
    if (strlen(owner) >= sizeof *account) {
        fprintf(stderr, "ledger: %s: name too long\n", owner);
        exit(2);
    }
    strcpy(account->owner, owner);
}

static void open_accounts(struct account *accounts, struct branch *branches)
{
    for (int i = 0; i < ACCOUNTS; i++) {
        char owner[OWNER_SIZE];
        snprintf(owner, sizeof owner, "customer %d", i);
        set_owner(&accounts[i], owner);
        accounts[i].branch = &branches[next_random() % BRANCHES];
        accounts[i].cents = 100000 + next_random() % 900000;
    }
}

static void transfer(struct account *from, struct account *to, int64_t cents)
{
    if (from->cents < cents)
        return;
    from->cents -= cents;
    to->cents += cents;
    from->transfers++;
    to->transfers++;
}

static void settle(struct account *accounts)
{
    for (struct account *account = accounts; account < accounts + ACCOUNTS; account++)
        account->branch->deposits += account->cents;
}

int main(void)
{
    static const char *const new_names[] = { "Ada Lovelace", "Kurt Goedel", "Sofya Vasilyevna Kovalevskaya",
                                             "Emmy Noether", "Alan Turing" };
    static struct branch branches[BRANCHES] = { { "London", 0 }, { "Vienna", 0 }, { "Stockholm", 0 },
                                                { "Bryn Mawr", 0 } };
    struct account *accounts = calloc(ACCOUNTS, sizeof *accounts);
    if (accounts == NULL) {
        perror("ledger");
        return 2;
    }
    open_accounts(accounts, branches);

    for (int i = 0; i < TRANSFERS; i++) {
        struct account *from = &accounts[next_random() % ACCOUNTS];
        struct account *to = &accounts[next_random() % ACCOUNTS];
        transfer(from, to, 1 + next_random() % 50000);
        if (i % (TRANSFERS / 5) == TRANSFERS / 10)
            set_owner(&accounts[7 + i % 48], new_names[i / (TRANSFERS / 5)]);
    }

    puts("All transfers are done. The branches hold:");
    fflush(stdout);
    settle(accounts);
    for (int i = 0; i < BRANCHES; i++)
        printf("%12ld.%02ld  %s\n", (long)branches[i].deposits / 100, (long)branches[i].deposits % 100,
               branches[i].city);
    return 0;
}
