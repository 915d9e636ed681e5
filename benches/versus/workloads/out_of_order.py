"""Records of users with mildly out-of-order event times, for W3, W5 and W7.

Takes a load, and a name that selects the random numbers. Returns users, amounts and times; the same as JSON. Defines
how late records are. Windows of the workloads stay open for as long as a record may be late.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator

from workloads.workload import Load, Row

USERS = 1000
# Event time between two records; every fifth record is late by up to `MOST_LATE_MS`.
STEP_MS = 5
MOST_LATE_MS = 10_000


def event_time(load: Load, number: int, rng: random.Random) -> int:
    """Event time of the record with this number."""
    time = load.base_ms + MOST_LATE_MS + number * STEP_MS
    return time - rng.randrange(MOST_LATE_MS) if number % 5 == 0 else time


def amounts(load: Load, name: str) -> Iterator[tuple[str, int, int]]:
    """User, amount, time."""
    rng = random.Random(f"{name} {load.seed}")
    for number in range(load.records):
        time = event_time(load, number, rng)
        yield f"user-{rng.randrange(USERS):05}", rng.randrange(1, 1000), time


def rows(given: Iterable[tuple[str, int, int]], member: str) -> Iterator[Row]:
    """Keyed by user, so that grouping needs no repartitioning; `member` is the name of the amount."""
    for user, amount, time in given:
        value = json.dumps({"user": user, member: amount}, separators=(",", ":"))
        yield Row(user, value.encode(), timestamp_ms=time)
