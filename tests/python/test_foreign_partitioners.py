"""Waiting rows keep their partition across a restart, even if the producer does not partition by murmur2.

Open windows, suppressed rows and unmatched records of joins wait. librdkafka's producers use crc32 by default. If a
restart assigned the rows by murmur2, another partition's time would close them, and their own records would open them
again: two final results.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from stoatflow import EmbeddedBroker, State, StoatFlow

LATER = 61_500
"""All windows and suppressed rows since the beginning have ended by then."""
PARTITIONS = 4


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that within a minute"
        time.sleep(0.01)


def windows(stream: sf.KStream[str, str], emit: sf.EmitStrategy | None) -> sf.KTable[Any, int]:
    windowed = stream.group_by_key(key=str, value=str).windowed_by(sf.TimeWindows("1m", grace="0s"))
    return (windowed.emit_strategy(emit) if emit else windowed).count(store="counts")


def on_close(stream: sf.KStream[str, str], _: sf.StreamsBuilder) -> sf.KStream[str, Any]:
    table = windows(stream, sf.EmitStrategy.on_window_close())
    return table.to_stream().map(lambda window, count: (window.key, count), name="plain")


def suppressed(stream: sf.KStream[str, str], _: sf.StreamsBuilder) -> sf.KStream[str, Any]:
    table = windows(stream, None).suppress(sf.Suppressed.until_window_closes(sf.Buffer.unbounded()), name="last")
    return table.to_stream().map(lambda window, count: (window.key, count), name="plain")


def sessions(stream: sf.KStream[str, str], _: sf.StreamsBuilder) -> sf.KStream[str, Any]:
    windowed = stream.group_by_key(key=str, value=str).windowed_by(sf.SessionWindows("30s", grace="0s"))
    table = windowed.emit_strategy(sf.EmitStrategy.on_window_close()).count(store="counts")
    return table.to_stream().map(lambda window, count: (window.key, count), name="plain")


def unmatched(stream: sf.KStream[str, str], builder: sf.StreamsBuilder) -> sf.KStream[str, Any]:
    answers = builder.stream("answers", key=str, value=str)
    window = sf.JoinWindows("30s", grace="0s")
    return stream.left_join(answers, lambda left, right: 2 if right is None else 0, window, name="joined")


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("topology", [on_close, suppressed, sessions, unmatched])
def test_a_row_that_waits_stays_in_its_partition(
    tmp_path: Path,
    topology: Callable[[sf.KStream[str, str], sf.StreamsBuilder], sf.KStream[str, Any]],
    lanes: int,
) -> None:
    def run(broker: EmbeddedBroker, records: list[tuple[str, int]]) -> list[tuple[str, int]]:
        before = len(list(broker.read("out")))
        builder = sf.StreamsBuilder()
        topology(builder.stream("in", key=str, value=str), builder).to("out", key=str, value=int)
        config = sf.Settings(
            {"application.id": "waits", "state.dir": str(tmp_path / "state"), "lanes.count": lanes}, environ={}
        )
        with StoatFlow(builder.build(), config, broker=broker) as app:
            until(lambda: app.state is State.RUNNING)
            for key, timestamp in records:
                partition = zlib.crc32(key.encode()) % PARTITIONS
                broker.produce("in", key.encode(), b"x", timestamp=timestamp, partition=partition)
            until(lambda: app.metrics()["records_committed"] == len(records))
        rows = list(broker.read("out"))[before:]
        return [((row.key or b"").decode(), int.from_bytes(row.value or b"", "big")) for row in rows]

    keys = [f"key-{at}" for at in range(24)]
    begin = [(key, 1_000) for key in keys]
    ahead = {zlib.crc32(key.encode()) % PARTITIONS: key for key in keys}[0]
    with EmbeddedBroker(tmp_path / "broker") as broker:
        broker.create_topic("in", PARTITIONS)
        broker.create_topic("answers", PARTITIONS)
        broker.create_topic("out", 1)
        assert run(broker, begin) == []
        # One partition is ahead: it closes what waits there, and nothing else.
        own = {key for key in keys if zlib.crc32(key.encode()) % PARTITIONS == 0}
        first = run(broker, [(ahead, LATER)])
        assert {key for key, _ in first} == own
        rest = [key for key in keys if key not in own]
        assert run(broker, [(key, 2_000) for key in rest]) == []
        ended = run(broker, [(key, LATER) for key in rest])
        assert sorted(key for key, _ in ended if key in rest) == sorted(rest * (2 if topology is unmatched else 1))
        assert dict(ended) == dict.fromkeys(rest, 2), "the whole of it"
        assert run(broker, [(key, LATER + 1) for key in keys]) == [], "and nothing twice"


def test_a_store_shows_what_its_partition_still_shows(tmp_path: Path) -> None:
    """Another partition is past the retention of a row, which would be hidden if it counted there, as murmur2 says."""
    builder = sf.StreamsBuilder()
    windows(builder.stream("in", key=str, value=str), None)
    config = sf.Settings({"application.id": "shown", "state.dir": str(tmp_path / "state")}, environ={})
    keys = [f"key-{at}" for at in range(24)]
    ahead = {zlib.crc32(key.encode()) % PARTITIONS: key for key in keys}
    with EmbeddedBroker(tmp_path / "broker") as broker:
        broker.create_topic("in", PARTITIONS)
        records = [(key, 1_000) for key in keys] + [(ahead[0], 90_000_000_000)]
        broker.produce_many(
            "in", [(zlib.crc32(key.encode()) % PARTITIONS, key.encode(), b"x", at) for key, at in records]
        )
        with StoatFlow(builder.build(), config, broker=broker) as app:
            until(lambda: app.metrics()["records_committed"] == len(records))
            shown = set(app.to_arrow("counts")["_key"].to_pylist())
    assert {key for key in keys if zlib.crc32(key.encode()) % PARTITIONS} <= shown
