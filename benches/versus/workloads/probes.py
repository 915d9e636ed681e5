"""Inputs whose outputs can be told one by one, to measure how long a record takes through an engine.

Takes: a workload's name, a first number and a count. Gives: rows in the order in which they are to be sent, which of
them must come out, and the number that an output record answers.
Owns: keys that occur once: a cache that folds updates has nothing to fold there, so that engines with different caches
can be compared. Never: knows when anything was sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from workloads import json_filter, table_join, windowed_sum, word_count
from workloads.workload import Load, Row

# One of so many records of an aggregation has a key that occurs once: the others are the work around it.
EVERY = 4
_MARK = "probe-"


@dataclass(frozen=True)
class Probes:
    """`answers[n]` is the number that the output of row n is known by; None if nothing can be told of it."""

    rows: list[Row]
    answers: list[int | None]


@dataclass(frozen=True)
class Probing:
    """How a workload is probed."""

    make: Callable[[int, int, int], Probes]
    number_of: Callable[[bytes, bytes], int | None]


def _marked(key: bytes) -> int | None:
    """Of a key that is `probe-<number>`, or begins so and ends with the eight bytes of a window."""
    if not key.startswith(_MARK.encode()):
        return None
    digits = key[len(_MARK) :]
    return int(digits if digits.isdigit() else digits[:-8])


def _id_of(_: bytes, value: bytes) -> int | None:
    return int(json.loads(value)["id"])


def _text(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _gathered(pairs: Iterable[tuple[Row, int | None]]) -> Probes:
    both = list(pairs)
    return Probes([row for row, _ in both], [number for _, number in both])


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

    # The words are those of one seed: a stage goes on where the last one ended.
    return _gathered(one(number, line) for number, line in enumerate(word_count.lines(Load(count, 1))))


def _payments(first: int, count: int, _: int) -> Probes:
    def one(number: int, user: str, amount: int) -> tuple[Row, int | None]:
        marked = number % EVERY == 0
        who = f"{_MARK}{first + number}" if marked else user
        return Row(who, _text({"user": who, "amount": amount})), first + number if marked else None

    # Sent now and stamped now: windows follow the clock.
    given = windowed_sum.payments(Load(count, first))
    return _gathered(one(number, user, amount) for number, (user, amount, _) in enumerate(given))


def _orders_of_users(first: int, count: int, table_keys: int) -> Probes:
    def one(number: int, user: int, order: dict[str, object]) -> tuple[Row, int | None]:
        row = Row(str(order["user"]), _text({**order, "id": first + number}))
        return row, first + number if user < table_keys else None

    given = table_join.orders(Load(count, first, table_keys=table_keys))
    return _gathered(one(number, user, order) for number, (user, order) in enumerate(given))


PROBES: dict[str, Probing] = {
    "w1": Probing(_orders, _id_of),
    "w2": Probing(_lines, lambda key, _: _marked(key)),
    "w3": Probing(_payments, lambda key, _: _marked(key)),
    "w4": Probing(_orders_of_users, _id_of),
}
