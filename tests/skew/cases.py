"""Cases: a topology, and what is written to its topics when.

Takes: a seed and a number.
Gives: always the same case for the same two; and the same records at other times.
Never: knows a broker, expects a result.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from skew.inputs import (
    MAX_SHIFT_MS,
    START,
    Input,
    Inputs,
    Lump,
    by_partition,
    in_bits,
    in_lumps,
    in_order_of_time,
    keys_of,
    last,
    side_by_side,
)
from skew.topologies import Step, Topology, aggregation, expiry, join_of_streams, join_with_a_table

KINDS = (
    "tumbling", "stream-join", "session", "table-join", "hopping", "outer-join", "sliding", "versioned-join",
)  # fmt: skip
EXPIRY = "expiry"
"""Drawn on request only."""
_PARTITIONS = (4, 8, 1)
_GRACES = (0, 0, 2_000)
_BEYOND_ALL_SHIFTS_MS = 2 * MAX_SHIFT_MS
# Where partitions meet, the effect of a short grace depends on the order in which Kafka Streams' tasks run.
_GRACES_WHERE_PARTITIONS_MEET = (0, _BEYOND_ALL_SHIFTS_MS, _BEYOND_ALL_SHIFTS_MS, _BEYOND_ALL_SHIFTS_MS)


@dataclass(frozen=True)
class SkewCase:
    """A topology, and what is written when."""

    name: str
    kind: str
    steps: list[Step]
    """Topics have short names; the output is `out`."""
    stores: dict[str, Step]
    """By name: `kind` (`kv`, `window`, `session`, `versioned`), and the `keys` of versioned ones."""
    topics: tuple[str, ...]
    partitions: int
    exchanged: bool
    """Whether the key is changed before anything is stored. Kafka Streams has a repartition topic there."""
    idle_ms: int
    """How long a task of Kafka Streams waits for an empty topic. There is none without a repartition topic."""
    native: bool
    """Whether expressions replace functions, where they are equivalent."""
    backlog: list[Input] = field(repr=False)
    """Written before anything starts."""
    lumps: list[Lump] = field(repr=False)

    @property
    def inputs(self) -> list[Input]:
        """All records."""
        return [*self.backlog, *(one for lump in self.lumps for one in lump.records)]

    @property
    def is_certain(self) -> bool:
        """Whether Kafka Streams has only one order in which to process this.

        After an exchange it has, if a single partition is read, and nothing else beside its repartition topic.
        """
        alone = len(self.topics) == 1 or (not self.backlog and all(lump.settled for lump in self.lumps))
        return not self.exchanged or (self.partitions == 1 and alone)

    def __str__(self) -> str:
        """A one-line description."""
        settled = sum(lump.settled for lump in self.lumps)
        how = f"{len(self.backlog)} records as a backlog, {len(self.lumps)} lumps, {settled} of them settled"
        exchanged = ", behind an exchange" if self.exchanged else ""
        return f"{self.name}: {self.kind}{exchanged}, {self.partitions} partitions, {how}, idle {self.idle_ms} ms"


def _window(kind: str, dice: random.Random, graces: tuple[int, ...]) -> Step:
    spans: dict[str, Callable[[], Step]] = {
        "tumbling": lambda: {"size_ms": dice.choice((1_000, 5_000))},
        "hopping": lambda: {"size_ms": 6_000, "advance_ms": dice.choice((2_000, 4_000))},
        "sliding": lambda: {"difference_ms": dice.choice((500, 2_000))},
        "session": lambda: {"gap_ms": dice.choice((400, 1_500))},
    }
    return {"type": kind, **spans[kind](), "grace_ms": dice.choice(graces)}


def _topology(kind: str, dice: random.Random, *, exchanged: bool, partitions: int) -> tuple[str, Topology]:
    graces = _GRACES_WHERE_PARTITIONS_MEET if exchanged and partitions > 1 else _GRACES
    if kind in ("tumbling", "hopping", "sliding", "session"):
        function, comes = dice.choice(("count", "reduce", "aggregate")), dice.choice(("each", "suppressed", "on_close"))
        window = _window(kind, dice, graces)
        reported = f"{kind} {function}, {comes}, grace {window['grace_ms']} ms"
        return reported, aggregation(window, function, comes, exchanged=exchanged)
    if kind in ("stream-join", "outer-join"):
        op = "outer_join" if kind == "outer-join" else dice.choice(("join", "left_join"))
        spans = [dice.choice((500, 2_000, 5_000)) for _ in range(2)]
        window = {"before_ms": spans[0], "after_ms": spans[1], "grace_ms": dice.choice(graces)}
        return f"{op} of streams, {window}", join_of_streams(op, window, exchanged=exchanged)
    if kind == EXPIRY:
        return "schedule by stream time that deletes", expiry(exchanged=exchanged)
    versioned = kind == "versioned-join"
    op = dice.choice(("join", "left_join"))
    grace = dice.choice((None, 2_000)) if versioned else None
    reported = f"{op} with a {'versioned ' if versioned else ''}table, grace {grace} ms"
    return reported, join_with_a_table(op, versioned=versioned, grace_ms=grace, exchanged=exchanged)


def drawn(seed: int, number: int, kind: str | None = None) -> SkewCase:
    """The case of this number: kinds, partitions, and other important properties cycle, the rest is drawn."""
    dice = random.Random(f"{seed}-{number}")  # noqa: S311  # no secret
    kind = kind or KINDS[number % len(KINDS)]
    round_ = number // len(KINDS)
    exchanged, live = (number // 2 + round_) % 2 == 1, (number // 3 + round_ // 2) % 2 == 1
    partitions = _PARTITIONS[number % len(_PARTITIONS)]
    reported, topology = _topology(kind, dice, exchanged=exchanged, partitions=partitions)
    topics = tuple(sorted({topic for step in topology.steps for topic in _sources(step)}))
    count = {1: 160, 4: 70, 8: 40}[partitions] // len(topics)
    inputs = Inputs(dice, partitions, topics, letters=exchanged and len(topics) > 1)
    lists = inputs.lists(count)
    backlog, lumps = ([], in_lumps(lists, topics, dice)) if live else (side_by_side(lists, dice), [])
    if topology.waits and dice.random() < 0.6:
        lumps.append(last(topics[0], partitions, exchanged=exchanged))
    for kept in topology.stores.values():
        if kept["kind"] == "versioned":
            kept["keys"] = sorted({one.key for records in lists for one in records if one.topic == "right"})
    return SkewCase(
        name=f"{kind}-{seed}-{number}",
        kind=reported,
        steps=topology.steps,
        stores=topology.stores,
        topics=topics,
        partitions=partitions,
        exchanged=exchanged,
        # Records from a repartition topic arrive later: only a task that waits for them takes records by
        # time.
        idle_ms=2_000 if exchanged and len(topics) > 1 and not live else 0,
        native=dice.random() < 0.5,
        backlog=backlog,
        lumps=lumps,
    )


def _sources(step: Step) -> list[str]:
    return [step["topic"]] if step["op"] == "table" else step.get("topics", [])


def two_partitions_ten_minutes_apart() -> SkewCase:
    """200 records in each of two partitions, counted in windows of five seconds without a grace."""
    window = {"type": "tumbling", "size_ms": 5_000, "grace_ms": 0}
    topology = aggregation(window, "count", "each", exchanged=False)
    keys = [next(keys_of(p, 2)) for p in range(2)]
    begin = [START + MAX_SHIFT_MS, START]
    records = [Input("in", p, keys[p], f"a{n}", begin[p] + n * 100) for n in range(200) for p in range(2)]
    return SkewCase(
        name="ten-minutes",
        kind="tumbling count, each, grace 0 ms",
        steps=topology.steps,
        stores=topology.stores,
        topics=("in",),
        partitions=2,
        exchanged=False,
        idle_ms=0,
        native=False,
        backlog=records,
        lumps=[],
    )


def at_other_times(case: SkewCase) -> list[SkewCase]:
    """The same records in the same partitions, written in chunks.

    The chunks are by time; or partition by partition, from the first on or from the last. The results are the same,
    unless they depend on how records of several partitions meet. Of two topics, the order between them is kept,
    since it decides about joins.
    """
    groups = [case.backlog, *(lump.records for lump in case.lumps)]
    if len(case.topics) == 1:
        free = [lump.records for lump in case.lumps if not lump.settled]
        settled = [lump.records for lump in case.lumps if lump.settled]
        groups = [[*case.backlog, *(one for records in free for one in records)], *settled]
    orders: list[tuple[Callable[[list[Input]], list[Input]], int]] = [
        (in_order_of_time, 60 if len(case.topics) == 1 else 8),
        (by_partition, case.partitions),
        (lambda records: by_partition(records, backwards=True), case.partitions),
    ]
    return [
        replace(
            case,
            idle_ms=min(case.idle_ms, 500),  # by then it is running, and each chunk costs that much
            backlog=[],
            lumps=[bit for n, one in enumerate(groups) for bit in in_bits(order(one), 3 if n else most)],
        )
        for order, most in orders
    ]
