"""The faults of a run and their order, drawn from a seed.

Takes a seed and a number of kills; returns `Fault`s. Every named place is hit at least once in a run with at least
as many kills as places, less one; other faults are mixed in. Never causes any of them (see harness.py).
"""

from __future__ import annotations

import random
from enum import Enum
from typing import NamedTuple

from broker.noise import ACTIONS

PLACES = (
    "start.fenced", "restore.batch", "epoch.send", "lane.barrier", "lane.seal", "commit.before-changelog",
    "commit.before-flush", "commit.before-offsets", "commit.before-commit", "commit.before-apply",
    "commit.during-apply", "commit.after-apply", "shutdown.barrier",
)  # fmt: skip
"""As docs/explain/exactly-once.md lists them."""
MOMENTS = {"starting": 1, "restoring": 2, "working": 6, "stopping": 2}
"""Of a kill at a random moment, with weights."""
FREEZABLE = (
    "epoch.send",
    "commit.before-flush",
    "commit.before-offsets",
    "commit.before-commit",
    "commit.before-apply",
)


class Kind(Enum):
    """Kinds of faults, and their names in the report."""

    KILL = "killed at a random moment"
    KILL_AT = "killed at a named place"
    ERROR_AT = "an error at a named place"
    FREEZE = "stopped in a commit (SIGSTOP) beyond the transaction timeout"
    BROKER_STOPPED = "broker stopped in order and started again"
    BROKER_KILLED = "broker killed and started again"
    BROKER_PAUSED = "broker paused (SIGSTOP) beyond the transaction timeout"
    DISK_FULL = "disk of the state directory full"
    CORRUPTED = "bytes of the local state flipped"
    SECOND = "a second instance started"
    PARTITIONS = "partitions added while running"
    WIRE = "many requests damaged"


OF_BROKER = (Kind.BROKER_STOPPED, Kind.BROKER_KILLED, Kind.BROKER_PAUSED)
OTHERS = (Kind.ERROR_AT, Kind.FREEZE, Kind.DISK_FULL, Kind.CORRUPTED, Kind.SECOND, *OF_BROKER)


class Fault(NamedTuple):
    """One fault; `where` is a moment, a place, or what happens to requests."""

    kind: Kind
    where: str = ""

    @property
    def is_kill(self) -> bool:
        """Whether it counts as a kill."""
        return self.kind in {Kind.KILL, Kind.KILL_AT}


def schedule(seed: int, kills: int, *, others: bool, broker: bool, wire: bool = False) -> list[Fault]:
    """This many kills; after all places, half of the rest at random moments, with other faults between them.

    With `wire` some of these damage requests: each action occurs before any of them repeats.
    """
    rng = random.Random(f"faults {seed}")
    places = list(PLACES)
    rng.shuffle(places)
    if not others:
        return [_moment(rng) for _ in range(kills)]
    at_places = places[:kills]
    at_places += rng.choices(PLACES, k=(kills - len(at_places)) // 2)
    faults = [Fault(Kind.KILL_AT, place) for place in at_places]
    faults += [_moment(rng) for _ in range(kills - len(faults))]
    # Places without a kill get an error instead, if there are few of them.
    unmet = places[kills:] if kills >= len(PLACES) - 1 else []
    faults += [Fault(Kind.ERROR_AT, place) for place in unmet]
    kinds = [kind for kind in OTHERS if broker or kind not in OF_BROKER]
    for number in range(max(len(kinds), kills // 5)):
        kind = kinds[number % len(kinds)]
        if kind is Kind.ERROR_AT and unmet and number < len(kinds):
            continue
        where = {Kind.ERROR_AT: PLACES[3:-1], Kind.FREEZE: FREEZABLE}.get(kind)
        faults.append(Fault(kind, rng.choice(where) if where else ""))
    faults.append(Fault(Kind.PARTITIONS))
    if wire:
        faults += [Fault(Kind.WIRE, ACTIONS[number % len(ACTIONS)]) for number in range(max(2, kills // 8))]
    rng.shuffle(faults)
    return faults


def _moment(rng: random.Random) -> Fault:
    return Fault(Kind.KILL, rng.choices(list(MOMENTS), list(MOMENTS.values()))[0])
