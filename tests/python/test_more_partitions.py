"""Windows of a new key, when a source gets more partitions: final results are emitted once, and none is lost.

After a re-keying the number of tasks is that of the input topic with the most partitions. With more tasks, keys move
to other tasks, whose stream time is behind or ahead of the task that had their windows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import stoatflow as sf
from stoatflow import EmbeddedBroker, StoatFlow

KEYS = [f"key-{at}" for at in range(60)]
Part: TypeAlias = "list[tuple[str, int]]"
"""Keys and timestamps."""
Given: TypeAlias = "list[tuple[str, int, int, int]]"
"""Key, start and end of the window, count."""
Windowed: TypeAlias = sf.TimeWindowedKStream[str, str] | sf.SessionWindowedKStream[str, str]


def tumbling(stream: sf.KGroupedStream[str, str]) -> Windowed:
    return stream.windowed_by(sf.TimeWindows("10s", grace="0s"))


def sessions(stream: sf.KGroupedStream[str, str]) -> Windowed:
    return stream.windowed_by(sf.SessionWindows("5s", grace="0s"))


def sliding(stream: sf.KGroupedStream[str, str]) -> Windowed:
    return stream.windowed_by(sf.SlidingWindows("5s", grace="0s"))


def topology(windowed: Callable[[sf.KGroupedStream[str, str]], Windowed], retention: str | None) -> sf.Topology:
    builder = sf.StreamsBuilder()
    records = builder.stream(re.compile(r"in-\d"), key=str, value=str)
    windows = windowed(records.group_by(lambda key, value: value, key=str, value=str))
    store = sf.Materialized("counts", retention=retention) if retention else "counts"
    closed = windows.emit_strategy(sf.EmitStrategy.on_window_close()).count(store=store).to_stream()
    flat = closed.map(lambda window, n: (window.key, [window.window.start, window.window.end, n]), name="flat")
    flat.to("out", key=str, value=list)
    return builder.build()


def murmur2(broker: EmbeddedBroker, partitions: int) -> dict[str, int]:
    """The partition of each key, as Kafka's default partitioner chooses it."""
    broker.create_topic(f"keys-{partitions}", partitions)
    broker.produce_many(f"keys-{partitions}", [(None, key.encode(), b"", 0) for key in KEYS])
    return {(record.key or b"").decode(): record.partition for record in broker.read(f"keys-{partitions}")}


def run(path: Path, parts: list[tuple[int, Part]], topology: sf.Topology, **settings: object) -> list[Given]:
    """Start once for each part, with this many partitions of its topic; returns the results of each run."""
    given = {"application.id": "app", "state.dir": str(path / "state"), **settings}
    found: list[Given] = []
    with EmbeddedBroker(path / "broker") as broker:
        broker.create_topic("out", 1)
        before = 0
        for partitions, part in parts:
            topic = f"in-{partitions}"
            broker.create_topic(topic, partitions)
            broker.produce_many(topic, [(at % partitions, b"", key.encode(), t) for at, (key, t) in enumerate(part)])
            with StoatFlow(topology, sf.Settings(given, environ={}), broker=broker) as app:
                app.wait_until(caught_up=True, timeout="60s")
            rows = list(broker.read("out"))[before:]
            before += len(rows)
            found.append([_given(row.key or b"", sf.Serdes.json().deserialize(row.value or b"")) for row in rows])
    return found


def _given(key: bytes, value: Any) -> tuple[str, int, int, int]:
    start, end, count = value
    return key.decode(), start, end, count


@pytest.mark.parametrize("settings", [{}, {"emit.interval.ms.kstreams.windowed.aggregation": 0}], ids=["", "passes"])
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize(
    ("more", "windowed", "retention"),
    # If windows are retained no longer than they are open, Kafka Streams emits no sliding windows closed by
    # a jump of time.
    [(3, tumbling, None), (3, sessions, None), *((n, kind, "1h") for n in (3, 4) for kind in (tumbling, sliding))],
)
@pytest.mark.parametrize("quiet", [True, False])
def test_each_window_is_emitted_once_when_a_source_gets_more_partitions(
    tmp_path: Path,
    more: int,
    windowed: Callable[[sf.KGroupedStream[str, str]], Windowed],
    retention: str | None,
    lanes: int,
    settings: dict[str, object],
    quiet: bool,
) -> None:
    with EmbeddedBroker() as broker:
        tasks = murmur2(broker, 2)
    # One task is some windows ahead of the other.
    ahead = [(key, at) for at in range(1_000, 102_000, 10_000) for key in KEYS if at < 40_000 or tasks[key] == 0]
    later: list[tuple[int, Part]] = [(more, [(key, at) for key in KEYS]) for at in (111_000, 121_000)]
    parts: list[tuple[int, Part]] = [(2, ahead), *([(more, [])] if quiet else []), *later]
    found = run(tmp_path / "more", parts, topology(windowed, retention), **{"lanes.count": lanes, **settings})
    whole: list[tuple[int, Part]] = [(1, [record for _, part in parts for record in part])]
    [expected] = run(tmp_path / "one", whole, topology(windowed, retention))
    assert len(set(expected)) == len(expected) > 400
    once, given = Counter(expected), Counter(one for part in found for one in part)
    assert {"twice": sorted(given - once), "lost": sorted(once - given)} == {"twice": [], "lost": []}


def on_close(stream: sf.KGroupedStream[str, str]) -> sf.KTable[sf.Windowed[str], int]:
    windows = stream.windowed_by(sf.TimeWindows("10s", grace="0s"))
    return windows.emit_strategy(sf.EmitStrategy.on_window_close()).count(store="counts")


def suppressed(stream: sf.KGroupedStream[str, str]) -> sf.KTable[sf.Windowed[str], int]:
    windows = stream.windowed_by(sf.TimeWindows("10s", grace="0s")).count(store="counts")
    return windows.suppress(sf.Suppressed.until_window_closes(), name="last")


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("table", [on_close, suppressed])
def test_buffered_rows_stay_in_their_source_partition(
    tmp_path: Path, table: Callable[[sf.KGroupedStream[str, str]], sf.KTable[sf.Windowed[str], int]], lanes: int
) -> None:
    """Also across one more start: only the time of that partition closes it."""
    builder = sf.StreamsBuilder()
    records = builder.stream(re.compile(r"in-\d"), key=str, value=str)
    closed = table(records.group_by_key()).to_stream()
    closed.map(lambda window, count: (window.key, count), name="plain").to("out", key=str, value=int)
    settings = sf.Settings(
        {"application.id": "app", "state.dir": str(tmp_path / "state"), "lanes.count": lanes}, environ={}
    )
    given: list[list[str]] = []
    with EmbeddedBroker(tmp_path / "broker") as broker:
        for topic, partitions in (("out", 1), ("in-1", 1)):
            broker.create_topic(topic, partitions)
        starts: list[tuple[str, list[tuple[int, str, int]]]] = [
            ("in-1", [(0, key, 1_000) for key in KEYS]),
            ("in-2", [(1, "of the new one", 90_000)]),
            ("in-2", []),
            ("in-1", [(0, "later", 15_000)]),
            ("in-1", [(0, "later", 16_000)]),
        ]
        before = 0
        for topic, part in starts:
            if topic == "in-2":
                broker.create_topic("in-2", 2)
            broker.produce_many(topic, [(partition, key.encode(), b"x", at) for partition, key, at in part])
            with StoatFlow(builder.build(), settings, broker=broker) as app:
                app.wait_until(caught_up=True, timeout="60s")
            rows = list(broker.read("out"))[before:]
            before += len(rows)
            given.append(sorted((row.key or b"").decode() for row in rows))
    assert given == [[], [], [], sorted(KEYS), []]
