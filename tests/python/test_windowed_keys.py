"""`sf.key.key`, `sf.key.window.start` and `.end`: the same as functions of `Windowed`, in all operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

WINDOWS: dict[str, Any] = {
    "tumbling": sf.TimeWindows("10ms", grace="100ms"),
    "hopping": sf.TimeWindows("10ms", advance="4ms", grace="100ms"),
    "sliding": sf.SlidingWindows("10ms", grace="100ms"),
    "sessions": sf.SessionWindows("10ms", grace="100ms"),
    "unlimited": sf.UnlimitedWindows(0),
    "a number of records": sf.CountWindows(2),
}
RECORDS = [("ann", 3), ("bob", 4), ("ann", 9), ("ann", 31), ("ann", 17), ("cyd", 40)]
KEY, WINDOW = sf.key.key, sf.key.window

Then = Callable[[Any], Any]


def counted(windows: Any, then: Then, key: Any, value: Any, sink: dict[str, Any]) -> list[tuple[Any, Any]]:
    """What `then` makes of the table of windowed counts of the records."""
    builder = sf.StreamsBuilder()
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    then(grouped.windowed_by(windows).count(store="counts")).to("out", **sink)
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in", str, str)
        for name, timestamp in RECORDS:
            source.pipe(name, "x", timestamp=timestamp)
        return driver.output("out", key, value).read_key_values_to_list()


SAME: dict[str, tuple[Then, Then, Any, Any]] = {
    "select_key": (
        lambda t: t.to_stream().select_key(KEY),
        lambda t: t.to_stream().select_key(lambda w, n: w.key),
        str,
        int,
    ),
    "filter": (
        lambda t: t.to_stream().filter((WINDOW.start >= 4) | (KEY != "bob")).select_key(KEY),
        lambda t: (
            t.to_stream().filter(lambda w, n: w.window.start >= 4 or w.key != "bob").select_key(lambda w, n: w.key)
        ),
        str,
        int,
    ),
    "map": (
        lambda t: t.to_stream().map((WINDOW.start, sf.obj(who=KEY, end=WINDOW.end, n=sf.value))),
        lambda t: t.to_stream().map(lambda w, n: (w.window.start, {"who": w.key, "end": w.window.end, "n": n})),
        int,
        dict,
    ),
    "map_values": (
        lambda t: t.to_stream().map_values(sf.obj(who=KEY, start=WINDOW.start, n=sf.value)).select_key(KEY),
        lambda t: (
            t.to_stream()
            .map_values(lambda w, n: {"who": w.key, "start": w.window.start, "n": n}, with_key=True)
            .select_key(lambda w, n: w.key)
        ),
        str,
        dict,
    ),
    "to_stream": (
        lambda t: t.to_stream(WINDOW.end),
        lambda t: t.to_stream(lambda w, n: w.window.end),
        int,
        int,
    ),
    "group_by": (
        lambda t: t.to_stream().group_by(KEY).count(store="updates").to_stream(),
        lambda t: t.to_stream().group_by(lambda w, n: w.key, key=str).count(store="updates").to_stream(),
        str,
        int,
    ),
    "a table": (
        lambda t: t.filter(WINDOW.end != 20).group_by((KEY, sf.value)).count(store="windows").to_stream(),
        lambda t: (
            t.filter(lambda w, n: w.window.end != 20)
            .group_by(lambda w, n: (w.key, n), key=str, value=int)
            .count(store="windows")
            .to_stream()
        ),
        str,
        int,
    ),
    "a text": (
        lambda t: t.to_stream().select_key(sf.format("{}@{}-{}", KEY.str.upper(), WINDOW.start, WINDOW.end)),
        lambda t: t.to_stream().select_key(lambda w, n: f"{w.key.upper()}@{w.window.start}-{w.window.end}"),
        str,
        int,
    ),
}


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("place", SAME)
def test_expressions_are_the_same_as_functions(kind: str, place: str) -> None:
    native, function, key, value = SAME[place]
    # Without serdes: those of the keys and of the numbers are known.
    found = counted(WINDOWS[kind], native, key, value, {})
    assert found
    assert found == counted(WINDOWS[kind], function, key, value, {"key": key, "value": value})


def test_the_times_of_windows_are_those_of_kafka_streams() -> None:
    ends = SAME["to_stream"][0]
    assert [end for end, _ in counted(WINDOWS["tumbling"], ends, int, int, {})] == [10, 10, 10, 40, 20, 50]
    # A session ends with its last record; the last of ann's but one connects 9 and 17.
    assert [end for end, _ in counted(WINDOWS["sessions"], ends, int, int, {})] == [3, 4, 3, 9, 31, 9, 17, 40]


class Upper(sf.Serde[str]):
    """A serde of the user for the keys within."""

    def serialize(self, value: str) -> bytes:
        return value.upper().encode()

    def deserialize(self, data: bytes) -> str:
        return data.decode().lower()


def test_the_key_within_keeps_its_serde() -> None:
    builder = sf.StreamsBuilder()
    grouped = builder.stream("in", key=Upper(), value=str).group_by_key()
    grouped.windowed_by(WINDOWS["tumbling"]).count(store="counts").to_stream().select_key(KEY).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, str).pipe("ANN", "x", timestamp=3)
        assert driver.output("out", str, int).read_key_values_to_list() == [("ANN", 1)]


def test_members_of_a_json_key_within_a_window() -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=dict, value=str, timestamp=sf.timestamp)
    counts = stream.group_by_key().windowed_by(WINDOWS["sessions"]).count(store="counts").to_stream()
    counts.filter(KEY["city"] == "Rome").select_key(KEY["user"].cast(str)).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in", dict, str)
        source.pipe({"city": "Rome", "user": "ann"}, "x")
        source.pipe({"city": "Oslo", "user": "bob"}, "x")
        assert driver.output("out", str, int).read_key_values_to_list() == [("ann", 1)]


@pytest.mark.parametrize("size", [None, "10ms"])
def test_a_source_of_windowed_keys_has_them_too(size: str | None) -> None:
    serde = sf.Serdes.session_windowed(str) if size is None else sf.Serdes.time_windowed(str, size)
    builder = sf.StreamsBuilder()
    builder.stream("in", key=serde, value=int).map((KEY, WINDOW.end - WINDOW.start)).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", serde, int).pipe(sf.Windowed("ann", sf.Window(30, 40)), 1)
        assert driver.output("out", str, int).read_key_values_to_list() == [("ann", 10)]


def test_evaluate_takes_a_windowed_key() -> None:
    windowed = sf.Windowed("ann", sf.Window(0, 60_000))
    assert KEY.evaluate(key=windowed) == "ann"
    assert (WINDOW.start.evaluate(key=windowed), WINDOW.end.evaluate(key=windowed)) == (0, 60_000)
    assert WINDOW.start.dt.iso("Europe/Berlin").evaluate(key=windowed) == "1970-01-01T01:00:00.000+01:00"
    assert KEY.evaluate(key=None) is None
    with pytest.raises(sf.ProcessingError, match="a windowed key was expected, but str was found"):
        WINDOW.start.evaluate(key="ann")


def test_keys_without_a_window_are_refused_when_the_topology_is_built() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).select_key(WINDOW.start).to("out")
    with pytest.raises(sf.TopologyError, match=r"sf\.key is str: only the keys of windowed aggregations have \.key"):
        builder.build()
    builder = sf.StreamsBuilder()
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    counts = grouped.windowed_by(WINDOWS["tumbling"]).count(store="counts").to_stream()
    counts.select_key(sf.key["window"]["start"]).to("out")
    with pytest.raises(sf.TopologyError, match=r"write sf\.key\.key for the key within, sf\.key\.window\.start"):
        builder.build()


def test_a_serde_of_the_user_may_read_windowed_keys() -> None:
    class Packed(sf.Serde[Any]):
        def serialize(self, value: Any) -> bytes:
            return f"{value.key}:{value.window.start}:{value.window.end}".encode()

        def deserialize(self, data: bytes) -> Any:
            key, *window = data.decode().split(":")
            return sf.Windowed(key, sf.Window(*map(int, window))) if window else key

    builder = sf.StreamsBuilder()
    builder.stream("in", key=Packed(), value=int).select_key(WINDOW.end).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in", str, int)
        source.pipe("ann:5:70", 1)
        assert driver.output("out", int, int).read_key_values_to_list() == [(70, 1)]
        with pytest.raises(sf.ProcessingError, match="a windowed key was expected, but str was found"):
            source.pipe("ann", 1)
