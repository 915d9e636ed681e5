"""The bank: money is only transferred, so every committed cut adds up to zero.

Takes the rows of the topic of balances, which has one partition, and its transactions; returns what is wrong, and
how many cuts were seen. At the end of each transaction the sum of all balances must be zero.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable

from topics import Row
from transactions import Transaction, mixed

from chaos.inputs import Inputs, read_long


def transfer(value: bytes | None) -> list[tuple[str, int]]:
    """The amounts that a record adds to accounts."""
    given = json.loads(value or b"")
    return [(given["from"], -given["amount"]), (given["to"], given["amount"])]


def moved(inputs: Inputs) -> dict[str, Counter[int]]:
    """For each account the amounts added to it, with their number of occurrences."""
    found: dict[str, Counter[int]] = defaultdict(Counter)
    for row in inputs.of("transfers"):
        for account, amount in transfer(row.value):
            found[account][amount] += 1
    return dict(found)


def cuts(rows: Iterable[Row], transactions: Iterable[Transaction]) -> list[int]:
    """The sum of all balances at every cut."""
    ends = {each.last for each in transactions}
    balances: dict[bytes | None, int] = {}
    found: list[int] = []
    total = 0
    for row in rows:
        value = read_long(row.value or b"")
        total += value - balances.get(row.key, 0)
        balances[row.key] = value
        if row.offset in ends:
            found.append(total)
    return found


def wrong(rows: list[Row], transactions: list[Transaction], inputs: Inputs) -> list[str]:
    """Cuts that don't add up, and transfers that are lost, duplicated, or never requested."""
    found_cuts = cuts(rows, transactions)
    torn = [total for total in found_cuts if total]
    reported = [f"balances: {len(torn)} committed cuts don't add up to nothing: {torn[:8]}"] if torn else []
    if len(found_cuts) != len(transactions) or (rows and not found_cuts):
        reported.append(f"balances: {len(transactions)} transactions, but rows of {len(found_cuts)} have come")
    reported += [f"balances: {one} and {other} are mixed" for one, other in mixed(transactions)]
    steps: dict[str, Counter[int]] = defaultdict(Counter)
    balances: dict[str, int] = {}
    for row in rows:
        account, value = (row.key or b"").decode(), read_long(row.value or b"")
        steps[account][value - balances.get(account, 0)] += 1
        balances[account] = value
    wanted = moved(inputs)
    for account in sorted(steps.keys() | wanted.keys()):
        found, given = steps.get(account, Counter()), wanted.get(account, Counter())
        if found != given:
            lost, more = given - found, found - given
            reported.append(f"balance of {account}: lost {dict(lost)}, too many {dict(more)}")
    return reported[:8]
