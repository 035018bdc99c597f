/* Moves money between accounts at random. No transfer creates or destroys a cent, yet the sum of
 * all balances changes. Which line did it? The program has no idea, and neither has its last
 * state: the bad write lies more than a hundred thousand transfers before the check that notices. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACCOUNTS = 64, TRANSFERS = 300000, OWNER_SIZE = 16 };

struct account {
    char owner[OWNER_SIZE];
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
    if (strlen(owner) > OWNER_SIZE) {
        fprintf(stderr, "ledger: %s: name too long\n", owner);
        exit(2);
    }
    strcpy(account->owner, owner);
}

static struct account *open_accounts(void)
{
    struct account *accounts = calloc(ACCOUNTS, sizeof *accounts);
    if (accounts == NULL) {
        perror("ledger");
        exit(2);
    }
    for (int i = 0; i < ACCOUNTS; i++) {
        char owner[OWNER_SIZE];
        snprintf(owner, sizeof owner, "customer %d", i);
        set_owner(&accounts[i], owner);
        accounts[i].cents = 100000 + next_random() % 900000;
    }
    return accounts;
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

static int64_t sum(const struct account *accounts)
{
    int64_t total = 0;
    for (int i = 0; i < ACCOUNTS; i++)
        total += accounts[i].cents;
    return total;
}

static const struct account *richest(const struct account *accounts)
{
    const struct account *best = accounts;
    for (int i = 1; i < ACCOUNTS; i++)
        if (accounts[i].cents > best->cents)
            best = &accounts[i];
    return best;
}

int main(void)
{
    static const char *const new_names[] = { "Ada Lovelace", "Kurt Goedel", "Sonya Kovalevsky",
                                             "Emmy Noether", "Alan Turing" };
    struct account *accounts = open_accounts();
    int64_t before = sum(accounts);

    for (int i = 0; i < TRANSFERS; i++) {
        struct account *from = &accounts[next_random() % ACCOUNTS];
        struct account *to = &accounts[next_random() % ACCOUNTS];
        transfer(from, to, 1 + next_random() % 50000);
        if (i % (TRANSFERS / 5) == TRANSFERS / 10)
            set_owner(&accounts[7 + i % 48], new_names[i / (TRANSFERS / 5)]);
    }

    int64_t after = sum(accounts);
    printf("richest: %.16s\n", richest(accounts)->owner);
    printf("before:  %ld.%02ld\n", (long)before / 100, (long)before % 100);
    printf("after:   %ld.%02ld\n", (long)after / 100, (long)after % 100);
    if (before != after) {
        printf("the books are off by %ld cents\n", (long)(after - before));
        return 1;
    }
    printf("the books are right\n");
    return 0;
}
