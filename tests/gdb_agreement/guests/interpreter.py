# Work for python3 that goes through much of the interpreter: calls, containers, text, exceptions, regular expressions.
import json
import re


class Account:
    def __init__(self, owner, cents):
        self.owner = owner
        self.cents = cents

    def withdraw(self, cents):
        if cents > self.cents:
            raise ValueError("%s has only %d" % (self.owner, self.cents))
        self.cents -= cents


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def words():
    for number in range(120):
        yield "word%d" % (number * 7919 % 211)


accounts = [Account(word, len(word) * 100) for word in words()]
refused = 0
for account in accounts:
    try:
        account.withdraw(550)
    except ValueError as error:
        refused += len(str(error))
counts = {}
for word in words():
    counts[word] = counts.get(word, 0) + 1
text = json.dumps({"counts": counts, "refused": refused, "fibonacci": fibonacci(13)}, sort_keys=True)
again = json.loads(text)
found = re.findall(r"w([a-z]+)(\d+)", text)
print(len(text), again["fibonacci"], sorted(found)[:2], sorted(accounts, key=lambda a: a.cents)[0].owner)
