"""Records for several partitions, each with its own range of timestamps, and their order of writing.

Takes: chance, topics, partitions.
Gives: records, side by side or in lumps.
Owns: the partition of a key (murmur2, as Kafka's clients have it).
Never: reads a clock, writes anything.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

START = 1_700_000_000_000
MAX_SHIFT_MS = 10 * 60_000
LETTERS = "abcdefgh"
"""Values begin with a letter: the keys after an exchange."""
_HOUR_MS = 3_600_000


class Input(NamedTuple):
    """A record to be written."""

    topic: str
    partition: int
    key: str
    value: str | None
    timestamp: int


class Lump(NamedTuple):
    """Records that are written together, while all applications run."""

    settled: bool
    """Whether it is written only after everything before was read; otherwise what they meet depends on timing."""
    records: list[Input]


def murmur2(data: bytes) -> int:
    """Kafka's hash of a key's bytes, without a sign."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(data)) & mask
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    if whole < len(data):
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def partition_of(key: str, partitions: int) -> int:
    """The partition that Kafka's clients choose for a key."""
    return (murmur2(key.encode()) & 0x7FFFFFFF) % partitions


def keys_of(partition: int, partitions: int) -> Iterator[str]:
    """Keys that belong to a partition."""
    return (key for key in (f"k{n}" for n in range(1_000_000)) if partition_of(key, partitions) == partition)


@dataclass
class Inputs:
    """Draws the records of one case."""

    dice: random.Random
    partitions: int
    topics: tuple[str, ...]
    letters: bool
    """Whether the keys of the topic `right` are letters, to meet those after an exchange."""

    def __post_init__(self) -> None:
        self._number = 0
        # If they are far apart, little meets after an exchange.
        widths = (2_000, 10_000, 60_000, MAX_SHIFT_MS) if self.letters else (5_000, 60_000, MAX_SHIFT_MS, MAX_SHIFT_MS)
        most = self.dice.choice(widths)
        self._shifts = [self.dice.randrange(most) for _ in range(self.partitions)]

    def lists(self, count: int) -> list[list[Input]]:
        """One list for each partition of each topic, each in the order of its partition."""
        return [self._list(topic, p, count) for topic in self.topics for p in range(self.partitions)]

    def _list(self, topic: str, partition: int, count: int) -> list[Input]:
        dice, keys = self.dice, self._keys(topic, partition)
        now = START + MAX_SHIFT_MS - self._shifts[partition]
        # Two topics are mostly seconds apart, and sometimes far.
        far = dice.randrange(-MAX_SHIFT_MS, MAX_SHIFT_MS)
        now += dice.choice((-3_000, -500, 0, 500, 3_000, far)) if topic == "right" else 0
        made = []
        for _ in range(count if keys else 0):
            now += dice.choice((0, 10, 50, 200, 400, 900)) + (30_000 if dice.random() < 0.01 else 0)
            at = now - (dice.randrange(3_000) if dice.random() < 0.25 else 0)
            # Records of two topics never have the same timestamp, since their order would depend on Kafka
            # Streams' fetches.
            at = at // 2 * 2 + (topic == "right")
            self._number += 1
            value: str | None = f"{dice.choice(LETTERS)}{self._number}"
            if topic == "right" and dice.random() < 0.1:
                value = None
            made.append(Input(topic, partition, dice.choice(keys), value, at))
        return made

    def _keys(self, topic: str, partition: int) -> list[str]:
        if topic == "right" and self.letters:
            return [letter for letter in LETTERS if partition_of(letter, self.partitions) == partition]
        found = keys_of(partition, self.partitions)
        return [next(found) for _ in range(3)]


def side_by_side(lists: list[list[Input]], dice: random.Random) -> list[Input]:
    """All records, each list in its order."""
    turns = [n for n, one in enumerate(lists) for _ in one]
    dice.shuffle(turns)
    each = [iter(one) for one in lists]
    return [next(each[n]) for n in turns]


def in_lumps(lists: list[list[Input]], topics: tuple[str, ...], dice: random.Random) -> list[Lump]:
    """Each lump is of one topic, so what it meets is certain once the earlier lumps were read."""
    lumps_of = []
    for topic in topics:
        records = side_by_side([one for one in lists if one and one[0].topic == topic], dice)
        least = max(4, len(records) // (12 if len(topics) == 1 else 6))
        lumps = []
        while records:
            size = dice.randint(least, 2 * least)
            lumps.append(Lump(len(topics) > 1, records[:size]))
            records = records[size:]
        lumps_of.append(lumps)
    turns = [n for n, lumps in enumerate(lumps_of) for _ in lumps]
    dice.shuffle(turns)
    each = [iter(lumps) for lumps in lumps_of]
    return [next(each[n]) for n in turns]


def last(topic: str, partitions: int, *, exchanged: bool) -> Lump:
    """Records an hour later for each task, so all that waits for time is emitted. After an exchange, by letters."""
    keys = [next(keys_of(0 if exchanged else p, partitions)) for p in range(len(LETTERS) if exchanged else partitions)]
    values = [f"{letter}-last" for letter in LETTERS] if exchanged else ["a-last"] * partitions
    at = START + MAX_SHIFT_MS + _HOUR_MS
    records = [Input(topic, partition_of(k, partitions), k, v, at) for k, v in zip(keys, values, strict=True)]
    return Lump(settled=True, records=records)


def in_order_of_time(records: list[Input]) -> list[Input]:
    """Always the next record of the partition whose next record is the oldest."""
    lists: dict[tuple[str, int], list[Input]] = {}
    for one in records:
        lists.setdefault((one.topic, one.partition), []).append(one)
    waiting = [list(reversed(one)) for one in lists.values()]
    made = []
    while waiting := [one for one in waiting if one]:
        made.append(min(waiting, key=lambda one: one[-1].timestamp).pop())
    return made


def by_partition(records: list[Input], *, backwards: bool = False) -> list[Input]:
    """Each partition as a whole."""
    return sorted(records, key=lambda one: -one.partition if backwards else one.partition)


def in_bits(records: list[Input], most: int) -> list[Lump]:
    """As few partitions in each chunk as this number of chunks allows."""
    runs = [list(run) for _, run in groupby(records, key=lambda one: one.partition)]
    while len(runs) > most:
        at = min(range(len(runs) - 1), key=lambda n: len(runs[n]) + len(runs[n + 1]))
        runs[at : at + 2] = [runs[at] + runs[at + 1]]
    return [Lump(settled=True, records=run) for run in runs]
