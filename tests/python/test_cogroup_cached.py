"""Cogrouped streams with a cache: one store, so one update per key and commit, whichever stream it is from."""

from __future__ import annotations

from typing import Any

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver
from stoatflow.windowed import Windowed


def add(_key: str, value: str, so_far: str) -> str:
    return so_far + value


def twice(windows: sf.SessionWindows | None) -> sf.Topology:
    """One stream, cogrouped with itself."""
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    both = stream.group_by_key().cogroup(add).cogroup(stream.group_by_key(), add)
    if windows is None:
        both.aggregate(lambda: "", store="kept", value=str).to_stream().to("out", value=str)
    else:
        sessions = both.windowed_by(windows)
        table = sessions.aggregate(lambda: "", lambda _key, one, two: one + two, store="kept", value=str)
        table.to_stream().to("out", value=str)
    return builder.build()


def run(topology: sf.Topology, given: list[tuple[str, str, int]], key: Any) -> list[tuple[Any, str | None]]:
    with TopologyTestDriver(topology, {"statestore.cache.max.bytes": 1_000_000}) as driver:
        source = driver.input("in", str, str)
        with driver.epoch():
            for name, value, time in given:
                source.pipe(name, value, timestamp=time)
        return driver.output("out", key, str).read_key_values_to_list()


def test_sessions() -> None:
    found = run(
        twice(sf.SessionWindows("20ms", grace="5ms")),
        [("b", "1", 17), ("b", "2", 29)],
        sf.Serdes.session_windowed(sf.Serdes.string()),
    )
    assert [(key.window.start, key.window.end, value) for key, value in found if isinstance(key, Windowed)] == [
        (17, 29, "1122")
    ]


@pytest.mark.parametrize("count", [1, 3])
def test_tables(count: int) -> None:
    given = [("a", str(number), number) for number in range(count)]
    assert run(twice(None), given, sf.Serdes.string()) == [("a", "".join(2 * str(n) for n in range(count)))]
