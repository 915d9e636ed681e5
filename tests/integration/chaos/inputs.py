"""The input: rounds of records from a seed, the same for the same seed.

Takes a seed and numbers of rounds; returns `Given` rows in writing order. Event times start 20 hours ago, so that a
broker deletes none of them and accepts the closing records of "now". Never looks at the output.
"""

from __future__ import annotations

import json
import random
import struct
import time
import zlib
from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka import Producer

from chaos.application import INPUTS

PATIENCE_S = 60.0
HOURS = 3_600_000
ROUND_MS = 10 * 60_000
AGO_MS = 20 * HOURS
MOST_ROUNDS = 40
"""Rounds of full length; more of them are shorter, so that the closing records, hours later, close everything."""
END = "~end"
"""Key of the records that close windows; their time is the end."""
TICKS, READINGS, CLICKS, LINES, TRANSFERS = 500, 450, 300, 300, 300
PER_ROUND = TICKS + READINGS + LINES + TRANSFERS + int(CLICKS * 2.15)
"""The approximate number of records of a round of size 1."""
CROWD = 1.0
"""If the input is this many times denser than usual, keys grow with it, so that joins don't grow quadratically."""
CITIES = ("rome", "oslo", "bonn", "lima", "kiew")


class Given(NamedTuple):
    """A record as it is written."""

    topic: str
    partition: int
    key: str | None
    value: bytes | None
    timestamp: int


def home(topic: str, key: str) -> int:
    """A key's partition in librdkafka: by crc32, not murmur2; a restart must know where records wait."""
    return zlib.crc32(key.encode()) % INPUTS[topic]


def long(number: int) -> bytes:
    """Encoded as Java's Long."""
    return struct.pack(">q", number)


def read_long(data: bytes) -> int:
    """Decoded from Java's Long."""
    return int(struct.unpack(">q", data)[0])


class Inputs:
    """All input so far, extended round by round.

    `rows` holds it all, unless that is turned off because another program reads it from the topics.
    """

    def __init__(self, seed: int, *, size: float = 1.0, rounds: int = MOST_ROUNDS, keep: bool = True) -> None:
        self._rng = random.Random(seed)
        self._size, self._keep = size, keep
        shorter = max(rounds, MOST_ROUNDS) / MOST_ROUNDS
        self._many = max(1, int(size * shorter / CROWD))
        self._round_ms = int(ROUND_MS / shorter)
        # Whole hours, so that windows are the same whenever a seed is repeated.
        self.start = int(time.time() * 1000 - AGO_MS) // HOURS * HOURS
        self.end = self.start + AGO_MS
        self.rows: list[Given] = []
        self.count = self._round = self._id = 0

    def of(self, topic: str) -> list[Given]:
        """Everything given to a topic, in order."""
        return [row for row in self.rows if row.topic == topic]

    def round(self) -> list[Given]:
        """A few more minutes of all kinds of records."""
        began = self.start + self._round * self._round_ms
        self._round += 1
        assert began + self._round_ms < self.end, "too many rounds: say their number before"
        rng, rows, many = self._rng, [], self._many

        def times(count: int) -> list[int]:
            return sorted(rng.randrange(began, began + self._round_ms) for _ in range(int(count * self._size)))

        for at in times(TICKS):
            side = rng.choice(["l", "r", "r", None])
            value = {"id": self._next(), "v": rng.randrange(1, 100), "side": side}
            rows.append(self._row("ticks", f"k{rng.randrange(15 * many)}", value, at))
        for at in times(READINGS):
            late = rng.choice([0, 0, 0, 5_000, 25_000, 120_000])
            null = rng.random() < 0.05
            rows.append(
                self._row("readings", f"r{rng.randrange(20 * many)}", None if null else self._next(), at - late)
            )
        for at in times(CLICKS):
            who = f"u{rng.randrange(25 * many)}"
            rows.append(self._row(rng.choice(["clicks", "clicks", "views"]), who, str(self._next()), at))
            if rng.random() < 0.5:
                user = {"city": rng.choice(CITIES), "amount": rng.randrange(100), "version": self._next()}
                rows.append(
                    self._row("users", f"u{rng.randrange(25 * many)}", None if rng.random() < 0.15 else user, at)
                )
            if rng.random() < 0.5:
                order = {"product": f"p{rng.randrange(8 * many)}", "amount": self._next()}
                rows.append(
                    self._row("orders", f"o{rng.randrange(40 * many)}", None if rng.random() < 0.15 else order, at)
                )
            if rng.random() < 0.15:
                tea = f"tea{self._next()}"
                rows.append(
                    self._row("products", f"p{rng.randrange(8 * many)}", None if rng.random() < 0.2 else tea, at)
                )
        for at in times(LINES):
            line = " ".join(f"w{int(rng.paretovariate(0.7)) % 200}" for _ in range(5))
            rows.append(Given("lines", rng.randrange(INPUTS["lines"]), None, line.encode(), at))
        for at in times(TRANSFERS):
            one, two = rng.sample(range(30 * many), 2)
            value = {"from": f"a{one}", "to": f"a{two}", "amount": rng.randrange(1, 1000)}
            partition = rng.randrange(INPUTS["transfers"])
            rows.append(Given("transfers", partition, None, json.dumps(value).encode(), at))
        return self._give(rows)

    def lines(self, count: int) -> list[Given]:
        """Only lines: the one topic whose records may arrive at any time."""
        at = self.start + self._round * self._round_ms
        partitions = INPUTS["lines"]
        texts = [" ".join(f"w{int(self._rng.paretovariate(0.7)) % 200}" for _ in range(5)) for _ in range(count)]
        return self._give([Given("lines", n % partitions, None, text.encode(), at) for n, text in enumerate(texts)])

    def closing(self) -> list[Given]:
        """Records that move stream time beyond every window, for each partition separately."""
        rows = [self._row("ticks", END, {"id": self._next(), "v": 1, "side": "l"}, self.end)]
        rows += [Given("readings", p, END, long(1), self.end) for p in range(INPUTS["readings"])]
        rows += [Given("clicks", p, END, str(self._next()).encode(), self.end) for p in range(INPUTS["clicks"])]
        return self._give(rows)

    def afterwards(self) -> list[Given]:
        """Clicks of every user, once the table of users is known to be complete."""
        return self._give(
            [self._row("clicks", f"u{n}", str(self._next()), self.end + 1) for n in range(25 * self._many)]
        )

    def _next(self) -> int:
        self._id += 1
        return self._id

    @staticmethod
    def _row(topic: str, key: str, value: object, at: int) -> Given:
        data = None
        if isinstance(value, str):
            data = value.encode()
        elif isinstance(value, int):
            data = long(value)
        elif value is not None:
            data = json.dumps(value).encode()
        return Given(topic, home(topic, key), key, data, at)

    def _give(self, rows: list[Given]) -> list[Given]:
        rows.sort(key=lambda row: (row.topic, row.partition))  # stable: keeps the order within a partition
        self.count += len(rows)
        if self._keep:
            self.rows += rows
        return rows


def write(address: str, name: str, rows: Iterable[Given]) -> None:
    """Write them to the topics `<name>-<topic>`."""
    # Idempotent: a broker that restarts must not get a record twice.
    producer = Producer({
        "bootstrap.servers": address, "linger.ms": 5, "enable.idempotence": True, "log_level": 0,
        "queue.buffering.max.messages": 1_000_000,
    })  # fmt: skip
    failed: list[object] = []
    for number, row in enumerate(rows):
        producer.produce(
            f"{name}-{row.topic}",
            row.value,
            row.key.encode() if row.key is not None else None,
            row.partition,
            timestamp=row.timestamp,
            on_delivery=lambda error, _message: failed.append(error) if error else None,
        )
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    assert not failed, failed[:3]
