"""Compares the expected records of one key with the actual ones.

Takes two sequences, returns faults, each with its positions. Independent of Spark and of topics.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Content = tuple["bytes | None", "int | None"]
"""Value and timestamp (`None`: not compared)."""

MISSING, DUPLICATED, WRONG, EXTRA, DISORDERED, SPLIT, ABORTED = (
    "missing", "duplicated", "wrong", "unexpected", "out of order", "split", "aborted"
)  # fmt: skip
FAULTS = (MISSING, ABORTED, DUPLICATED, WRONG, EXTRA, DISORDERED, SPLIT)


class Found(NamedTuple):
    """A record of the output topic."""

    content: Content
    partition: int
    offset: int


class Fault(NamedTuple):
    """One fault: what was expected, and what was found."""

    kind: str
    expected: Content | None
    found: Found | None


def compare_key(
    expected: Sequence[Content], found: Sequence[Found], *, updates: bool, ordered: bool = True
) -> Iterator[Fault]:
    """Yield the faults of a key. `updates`: each expected record must be there, not only the last one.

    The records found are in the order of their offsets. With `ordered=False` any order is accepted, for records without
    a key.
    """
    if len(expected) == len(found) and all(e == f.content for e, f in zip(expected, found, strict=True)):
        yield from split(found)
        return
    if not updates:
        yield from _last(expected, found)
        yield from split(found)
        return
    matched, unexpected, repeated = _matched(expected, found)
    for record in repeated:
        yield Fault(DUPLICATED, record.content, record)
    hit = {at for at, _ in matched}
    missing = [at for at in range(len(expected)) if at not in hit]
    for at, record in zip(missing, unexpected, strict=False):
        yield Fault(WRONG, expected[at], record)
    for at in missing[len(unexpected) :]:
        yield Fault(MISSING, expected[at], None)
    for record in unexpected[len(missing) :]:
        yield Fault(EXTRA, None, record)
    if ordered:
        yield from _disordered(matched, expected)
        yield from split(found)


def compare_last(expected: Sequence[Content], found: Sequence[Found]) -> Iterator[Fault]:
    """Yield the faults if only the last value of a key matters."""
    last = [record._replace(content=(record.content[0], None)) for record in found[-1:]]
    yield from _last([(value, None) for value, _ in expected[-1:]], last)
    yield from split(found)


def _last(expected: Sequence[Content], found: Sequence[Found]) -> Iterator[Fault]:
    """Yield the faults if all updates but the last may be missing: those that exist must follow the expected order."""
    places = defaultdict[Content, list[int]](list)
    for at, content in enumerate(expected):
        places[content].append(at)
    end = expected[-1] if expected else None
    # For a key that is created and deleted within one commit nothing is written at all.
    missing = end is not None and (found[-1].content != end if found else end[0] is not None)
    reached = -1
    for record in found:
        known = places.get(record.content)
        if known is None:
            if missing and record is found[-1]:
                missing = False
                yield Fault(WRONG, end, record)
            else:
                yield Fault(EXTRA, None, record)
            continue
        later = bisect_right(known, reached)
        if later < len(known):
            reached = known[later]
        else:
            kind = DUPLICATED if known[-1] == reached else DISORDERED
            yield Fault(kind, record.content, record)
    if missing:
        yield Fault(MISSING, end, None)


def _matched(
    expected: Sequence[Content], found: Sequence[Found]
) -> tuple[list[tuple[int, Found]], list[Found], list[Found]]:
    """Return found records with the index of their expected one, records that match none, and surplus records."""
    places = defaultdict[Content, list[int]](list)
    for at, content in enumerate(expected):
        places[content].append(at)
    taken = dict.fromkeys(places, 0)
    matched: list[tuple[int, Found]] = []
    unexpected: list[Found] = []
    repeated: list[Found] = []
    for record in found:
        known = places.get(record.content)
        if known is None:
            unexpected.append(record)
        elif taken[record.content] < len(known):
            matched.append((known[taken[record.content]], record))
            taken[record.content] += 1
        else:
            repeated.append(record)
    return matched, unexpected, repeated


def _disordered(matched: Sequence[tuple[int, Found]], expected: Sequence[Content]) -> Iterator[Fault]:
    """Yield the fewest records that would have to move: those outside a longest increasing subsequence."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int | None] = []
    for number, (at, _) in enumerate(matched):
        length = bisect_left(ends, at)
        before.append(last[length - 1] if length else None)
        if length == len(ends):
            ends.append(at)
            last.append(number)
        else:
            ends[length] = at
            last[length] = number
    if len(ends) == len(matched):
        return
    rising: set[int] = set()
    step = last[-1] if last else None
    while step is not None:
        rising.add(step)
        step = before[step]
    for number, (at, record) in enumerate(matched):
        if number not in rising:
            yield Fault(DISORDERED, expected[at], record)


def split(found: Sequence[Found]) -> Iterator[Fault]:
    """Yield one record of a key that is in several partitions."""
    if found and any(record.partition != found[0].partition for record in found):
        other = next(record for record in found if record.partition != found[0].partition)
        yield Fault(SPLIT, None, other)
