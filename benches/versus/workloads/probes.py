"""Inputs whose outputs can be identified one by one, to measure the latency of a record through an engine.

Takes a workload's name, a first number and a count. Returns rows in sending order, which of them must have an output,
the table rows that they are joined with, and the input number of an output record. Their keys occur once, so that a
cache has no updates to combine: engines with different caches can be compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from workloads import json_filter, sessions, shop, table_join, windowed_sum, word_count
from workloads.workload import Load, Row

# In aggregations, one of this many records has a key that occurs once: the others are background load.
EVERY = 4
_MARK = "probe-"


@dataclass(frozen=True)
class Probes:
    """`answers[n]` is the number that identifies the output of row n; `None` if it can't be identified.

    `inputs[n]` is the input of row n.
    """

    rows: list[Row]
    answers: list[int | None]
    inputs: list[int]


@dataclass(frozen=True)
class Probing:
    """How a workload is probed."""

    make: Callable[[int, int, int], Probes]
    number_of: Callable[[bytes, bytes], int | None]
    # Number of inputs that are sent at a rate; the others are tables, written before.
    sent: int = 1
    # Index of the output that is read.
    output: int = 0
    # The table row that a probe is joined with, in addition to the rows of every load, by name of the input.
    beside: Mapping[str, Callable[[int], Row]] = field(default_factory=dict)


def _marked(tail: int) -> Callable[[bytes, bytes], int | None]:
    """Return the number of a key `probe-<number>`, followed by `tail` bytes of a window or a session."""

    def number(key: bytes, _: bytes) -> int | None:
        return int(key[len(_MARK) : len(key) - tail]) if key.startswith(_MARK.encode()) else None

    return number


def _id_of(_: bytes, value: bytes) -> int | None:
    return int(json.loads(value)["id"])


def _text(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _gathered(pairs: Iterable[tuple[Row, int | None]], inputs: Iterable[int] | None = None) -> Probes:
    both = list(pairs)
    return Probes([row for row, _ in both], [number for _, number in both], list(inputs or [0] * len(both)))


def _orders(first: int, count: int, _: int) -> Probes:
    def one(number: int, order: dict[str, object]) -> tuple[Row, int | None]:
        kept = int(str(order["amount"])) >= json_filter.LEAST
        row = Row(None, _text({**order, "id": first + number}), partition=number % Load(0, 0).partitions)
        return row, first + number if kept else None

    return _gathered(one(number, order) for number, order in enumerate(json_filter.orders(Load(count, first))))


def _lines(first: int, count: int, _: int) -> Probes:
    def one(number: int, line: str) -> tuple[Row, int | None]:
        marked = number % EVERY == 0
        text = f"{line} {_MARK}{first + number}" if marked else line
        row = Row(None, text.encode(), partition=number % Load(0, 0).partitions)
        return row, first + number if marked else None

    # The words are those of one seed: a stage continues where the last one ended.
    return _gathered(one(number, line) for number, line in enumerate(word_count.lines(Load(count, 1))))


def _payments(first: int, count: int, _: int) -> Probes:
    return _amounts(windowed_sum.payments(Load(count, first)), first, "amount")


def _clicks(first: int, count: int, _: int) -> Probes:
    return _amounts(sessions.clicks(Load(count, first)), first, "spent")


def _amounts(given: Iterable[tuple[str, int, int]], first: int, member: str) -> Probes:
    def one(number: int, user: str, amount: int) -> tuple[Row, int | None]:
        marked = number % EVERY == 0
        who = f"{_MARK}{first + number}" if marked else user
        return Row(who, _text({"user": who, member: amount})), first + number if marked else None

    # Sent now, with the current timestamp: windows and sessions follow the clock.
    return _gathered(one(number, user, amount) for number, (user, amount, _) in enumerate(given))


def _orders_of_users(first: int, count: int, table_keys: int) -> Probes:
    def one(number: int, user: int, order: dict[str, object]) -> tuple[Row, int | None]:
        row = Row(str(order["user"]), _text({**order, "id": first + number}))
        return row, first + number if user < table_keys else None

    given = table_join.orders(Load(count, first, table_keys=table_keys))
    return _gathered(one(number, user, order) for number, (user, order) in enumerate(given))


def _shop(first: int, count: int, _: int) -> Probes:
    """Each order is for a product that is ordered once: it passes two joins and a re-keying to its revenue."""
    given = list(shop.events(Load(count, first)))

    def one(number: int, who: int, what: int, amount: int | None) -> tuple[Row, int | None]:
        if amount is None:
            return Row(shop.user(who), _text({"product": shop.product(what)})), None
        order = {"product": f"{_MARK}{first + number}", "amount": amount}
        return Row(shop.user(who), _text(order)), first + number

    pairs = (one(number, who, what, amount) for number, (who, what, _, amount) in enumerate(given))
    return _gathered(pairs, (int(amount is not None) for *_, amount in given))


def _article(number: int) -> Row:
    return Row(f"{_MARK}{number}", _text(shop.article(number)))


PROBES: dict[str, Probing] = {
    "w1": Probing(_orders, _id_of),
    "w2": Probing(_lines, _marked(0)),
    "w3": Probing(_payments, _marked(8)),
    "w4": Probing(_orders_of_users, _id_of),
    "w5": Probing(_clicks, _marked(16)),
    "w7": Probing(_shop, _marked(0), sent=2, output=1, beside={"products": _article}),
}
