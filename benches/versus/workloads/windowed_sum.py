"""W3: small JSON, the sum per user in tumbling windows of a minute with 30 s of grace, mildly out of order.

Takes: a load. Gives: its records and what must come out. Owns: how far records are out of order.
Never: makes a record that is too late for its window: then the result would depend on who reads how fast.
"""

from __future__ import annotations

import json
import random
import struct
from collections import Counter
from collections.abc import Iterator, Mapping

from workloads.workload import Cell, Form, Input, Load, Row, Workload

USERS = 1000
WINDOW_MS = 60_000
GRACE_MS = 30_000
# Event time between two records; every fifth comes up to so much later than it happened.
STEP_MS = 5
MOST_LATE_MS = 10_000


def payments(load: Load) -> Iterator[tuple[str, int, int]]:
    """User, amount, time."""
    rng = random.Random(f"payments {load.seed}")
    for number in range(load.records):
        time = load.base_ms + MOST_LATE_MS + number * STEP_MS
        if number % 5 == 0:
            time -= rng.randrange(MOST_LATE_MS)
        yield f"user-{rng.randrange(USERS):05}", rng.randrange(1, 1000), time


def rows(load: Load) -> Iterator[Row]:
    """Keyed by user, so that nobody has to write them again to group them."""
    for user, amount, time in payments(load):
        value = json.dumps({"user": user, "amount": amount}, separators=(",", ":"))
        yield Row(user, value.encode(), timestamp_ms=time)


def identity(user: str, start_ms: int) -> str:
    """A user in a window, as one text."""
    return f"{user}@{start_ms}"


def wanted(load: Load) -> Mapping[str, Cell]:
    """The sums, added by Python."""
    sums: Counter[str] = Counter()
    for user, amount, time in payments(load):
        sums[identity(user, time - time % WINDOW_MS)] += amount
    return dict(sums)


def read(key: bytes, value: bytes) -> tuple[str, Cell]:
    """A windowed key as Kafka Streams writes it (text, then the start in 8 bytes), and a Long."""
    if len(key) < 8 or len(value) != 8:
        raise Form(f"not a windowed key and a long but {key[:40]!r}: {value[:40]!r}")
    (start,) = struct.unpack(">q", key[-8:])
    (total,) = struct.unpack(">q", value)
    return identity(key[:-8].decode(), start), total


WORKLOAD = Workload(
    name="w3",
    title="sum per user in windows of a minute",
    inputs=(Input("payments", rows, lambda load: load.records),),
    wanted=wanted,
    read=read,
    updates=True,
    flavours=("native", "lambda"),
)
