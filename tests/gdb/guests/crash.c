/* Overwrites a pointer by accident, and crashes much later where it is followed. */

struct account {
    char owner[8];
    long *balance;
};

static long balances[4] = { 100, 200, 300, 400 };
static struct account accounts[4];

static void rename_account(struct account *account, const char *owner)
{
    char *to = account->owner;
    while ((*to++ = *owner++) != '\0')
        continue;
}

static long transfer(int from, int to, long amount)
{
    *accounts[from].balance -= amount;
    *accounts[to].balance += amount;
    return amount;
}

int main(void)
{
    for (int i = 0; i < 4; i++)
        accounts[i].balance = &balances[i];
    for (int i = 0; i < 1000; i++)
        transfer(i % 3, (i + 1) % 3, i % 7);
    rename_account(&accounts[3], "Ada Lovelace");
    for (int i = 0; i < 1000; i++)
        transfer(i % 3, (i + 1) % 3, i % 5);
    transfer(0, 3, 10);
    return 0;
}
