"""Operators that Kafka Streams runs over all keys of a task, with many lanes: bounded buffers, and periodic passes."""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

import stoatflow as sf
from stoatflow import EmbeddedBroker, StoatFlow

PARTITIONS = 4
SETTINGS = {
    "statestore.cache.max.bytes": 0,
    "emit.interval.ms.kstreams.windowed.aggregation": 0,
    "emit.interval.ms.kstreams.outer.join.spurious.results.fix": 0,
}
Row = tuple[int | None, str, int, int]
"""Partition, key, value, timestamp."""
Written = dict[bytes | None, list[tuple[bytes | None, int]]]
"""By key: value and timestamp, in order."""


def bounded(stream: sf.KStream[str, int]) -> None:
    """Which rows are emitted early depends on all keys that share the buffer."""
    buffer = sf.Buffer(max_records=3, when_full="emit_early")
    counted = stream.group_by_key().count(store="counts")
    counted.suppress(sf.Suppressed.until_time_limit("10m", buffer), name="held").to_stream().to("out")


def passes_over_rows(stream: sf.KStream[str, int]) -> None:
    """A row without a partner is emitted by a pass, and passes depend on what else waits."""
    left = stream.filter(lambda key, value: value % 2 == 0, name="even")
    right = stream.filter(lambda key, value: value % 2 == 1, name="odd")
    window = sf.JoinWindows("30ms", grace="20ms")
    left.outer_join(right, lambda one, two: [one, two], window, name="pairs").to("out", value=list)


def passes_over_windows(stream: sf.KStream[str, int]) -> None:
    windows = stream.group_by(lambda key, value: f"{key}-new", key=str, value=int).windowed_by(
        sf.TimeWindows("50ms", grace="20ms")
    )
    closed = windows.emit_strategy(sf.EmitStrategy.on_window_close()).count(store="windows")
    closed.to_stream().map(lambda window, count: (window.key, [window.window.start, count]), name="flat").to(
        "out", key=str, value=list
    )


def by_crc32(key: str) -> int:
    """librdkafka's default partitioner, where Kafka Streams expects murmur2."""
    return zlib.crc32(key.encode()) % PARTITIONS


def rows(seed: int, count: int, partition_of: Callable[[str], int] | None = None) -> list[Row]:
    chance = random.Random(seed)  # noqa: S311  # the same each time
    found: list[Row] = []
    for at in range(count):
        key = f"key-{chance.randrange(60)}"
        partition = partition_of(key) if partition_of else None
        found.append((partition, key, at, 10_000 + 3 * at + chance.randrange(-40, 40)))
    return found


def one_after_the_other(parts: list[list[Row]]) -> list[list[Row]]:
    return [[(p, k, v, time + 1_200 * at) for p, k, v, time in part] for at, part in enumerate(parts)]


def run(
    path: Path,
    shape: Callable[[sf.KStream[str, int]], None],
    parts: list[list[Row]],
    lanes: list[int],
    **more: object,
) -> Written:
    """Run one part after the other, each with its number of lanes; returns the output."""
    builder = sf.StreamsBuilder()
    shape(builder.stream("in", key=str, value=int))
    with EmbeddedBroker(path / "broker") as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic, PARTITIONS)
        for part, count in zip(parts, lanes, strict=True):
            broker.produce_many(
                "in",
                [(partition, key.encode(), struct.pack(">q", value), time) for partition, key, value, time in part],
            )
            settings = {
                "application.id": "app",
                "state.dir": str(path / "state"),
                "lanes.count": count,
                **SETTINGS,
                **more,
            }
            with StoatFlow(builder.build(), sf.Settings(settings, environ={}), broker=broker) as app:
                app.wait_until(caught_up=True, timeout="60s")
        written: Written = {}
        for record in broker.read("out"):
            written.setdefault(record.key, []).append((record.value, record.timestamp))
    return written


def windows_of_keys_as_read(stream: sf.KStream[str, int]) -> None:
    """No passes here, except with one lane: a key may be in another partition than it implies."""
    windows = stream.group_by_key().windowed_by(sf.TimeWindows("50ms", grace="20ms"))
    closed = windows.emit_strategy(sf.EmitStrategy.on_window_close()).count(store="windows")
    closed.to_stream().map(lambda window, count: (window.key, [window.window.start, count]), name="flat").to(
        "out", key=str, value=list
    )


@pytest.mark.parametrize("shape", [bounded, passes_over_rows, passes_over_windows, windows_of_keys_as_read])
def test_any_number_of_lanes_writes_the_same(tmp_path: Path, shape: Callable[[sf.KStream[str, int]], None]) -> None:
    """Each key record by record, across restarts with other numbers of lanes."""
    parts = one_after_the_other([rows(seed, 400) for seed in range(3)])
    one = run(tmp_path / "one", shape, parts, [1, 1, 1])
    assert sum(map(len, one.values())) > 200
    for lanes in ([4, 4, 4], [2, 16, 3], [1, 8, 1]):
        found = run(tmp_path / "-".join(map(str, lanes)), shape, parts, lanes)
        assert found == one, lanes


@pytest.mark.parametrize("lanes", [[4, 4, 4], [2, 16, 3], [1, 8, 1]])
def test_windows_of_keys_in_other_partitions_are_emitted_once(tmp_path: Path, lanes: list[int]) -> None:
    """Their lane is not the one with the rest of their partition."""
    parts = one_after_the_other([rows(seed, 400, by_crc32) for seed in range(3)])
    one = run(tmp_path / "one", windows_of_keys_as_read, parts, [1, 1, 1])
    starts = [value for values in one.values() for value, _ in values]
    assert len(starts) > 600
    assert run(tmp_path / "many", windows_of_keys_as_read, parts, lanes) == one


@pytest.mark.parametrize("lanes", [[1, 1], [4, 7]])
def test_a_key_in_several_partitions_loses_nothing(tmp_path: Path, lanes: list[int]) -> None:
    """As after a change of the number of partitions: a key has one lane, whichever partition it is from."""
    chance = random.Random(3)  # noqa: S311  # the same each time
    first, second = rows(1, 400), rows(2, 400, lambda _: chance.randrange(PARTITIONS))
    last: list[Row] = [
        (partition, f"end-{partition}", at, 10_000_000) for partition in range(PARTITIONS) for at in (0, 1)
    ]
    parts = one_after_the_other([first, [*second, *last]])
    counted = {
        key.decode(): max(struct.unpack(">q", value or b"")[0] for value, _ in values)
        for key, values in run(tmp_path, bounded, parts, lanes).items()
        if key and not key.startswith(b"end")
    }
    keys = [key for _, key, _, _ in first + second]
    assert counted == {key: keys.count(key) for key in set(keys)}


def test_an_interval_is_kept_if_keys_determine_partitions(tmp_path: Path) -> None:
    """An hour passes between two passes over windows of a new key, and none over those of unchanged keys."""
    parts = [rows(1, 400)]
    hour: dict[str, object] = {"emit.interval.ms.kstreams.windowed.aggregation": 3_600_000}

    def found(shape: Callable[[sf.KStream[str, int]], None], lanes: int) -> int:
        written = run(tmp_path / f"{shape.__name__}-{lanes}", shape, parts, [lanes], **hour)
        return sum(map(len, written.values()))

    assert [found(passes_over_windows, lanes) for lanes in (1, 4)] == [0, 0]
    assert found(windows_of_keys_as_read, 1) == 0
    assert found(windows_of_keys_as_read, 4) > 200


@pytest.mark.parametrize("lanes", [[1, 1], [4, 7]])
def test_rows_of_keys_in_other_partitions_are_emitted(tmp_path: Path, lanes: list[int]) -> None:
    """With their partner, or alone: none is lost by the passes of another lane."""
    first, second = rows(1, 400, by_crc32), rows(2, 400, by_crc32)
    last: list[Row] = [
        (partition, f"end-{partition}", at, 10_000_000) for partition in range(PARTITIONS) for at in (0, 1)
    ]
    parts = one_after_the_other([first, [*((p, k, v + 400, time) for p, k, v, time in second), *last]])
    written = run(tmp_path, passes_over_rows, parts, lanes)
    pairs = [
        json.loads(value or b"[]")
        for key, values in written.items()
        if key and key[:3] != b"end"
        for value, _ in values
    ]
    assert {value for pair in pairs for value in pair} - {None} == set(range(800))
