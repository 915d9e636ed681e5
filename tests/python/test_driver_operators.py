"""Runs what the plan's tests only compile: global stores, stores of every kind, windows, suppress, patterns, print."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from stoatflow import Record, Stores, Window, Windowed
from stoatflow.testing import TopologyTestDriver


class Upper(sf.ContextualProcessor[str, str, str, str]):
    """Stores the upper case of its input."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.kept = context.state_store("places")

    def process(self, record: Record[str, str]) -> None:
        if record.value is None:
            self.kept.delete(record.key)
        else:
            self.kept.put(record.key, record.value.upper())


class Lookup(sf.ContextualProcessor[str, str, str, str]):
    """Appends a place's name to its input."""

    def process(self, record: Record[str, str]) -> None:
        found = self.context.state_store("places").get(record.value)
        self.context.forward(record.replace(value=f"{record.value}={found}"))


def places() -> sf.StoreBuilder[str, str]:
    return Stores.persistent_key_value("places", key=str, value=str, logging=False)


def by_dsl() -> sf.Topology:
    builder = sf.StreamsBuilder()
    builder.add_global_store(places(), "places", Upper, key=str, value=str)
    builder.stream("visits", key=str, value=str).process(Lookup, stores=["places"]).to("out", key=str, value=str)
    return builder.build()


def by_hand(method: str) -> sf.Topology:
    topology = sf.Topology()
    getattr(topology, method)(places(), "places", Upper, key=str, value=str)
    topology.add_source("visits", "visits", key=str, value=str).add_processor("lookup", Lookup, "visits")
    topology.connect("lookup", "places")
    return topology.add_sink("out", "out", "lookup", key=str, value=str)


@pytest.mark.parametrize("build", [by_dsl, lambda: by_hand("add_global_store"), lambda: by_hand("add_read_only_store")])
@pytest.mark.parametrize("lanes", [1, 3])
def test_a_store_kept_from_a_topic(build: Any, lanes: int) -> None:
    with TopologyTestDriver(build(), lanes=lanes) as driver:
        place, visit = driver.input("places", str, str), driver.input("visits", str, str)
        place.pipe("p", "rome")
        place.pipe("q", "oslo")
        visit.pipe("ann", "p")
        place.pipe("q", None)
        driver.crash()
        driver.restart(lanes=2)
        visit.pipe("bob", "q")
        visit.pipe("bob", "p")
        out = driver.output("out", str, str)
        assert out.read_key_values_to_list() == [("ann", "p=ROME"), ("bob", "q=None"), ("bob", "p=ROME")]
        assert driver.store("places").all() == {"p": "ROME"}


def test_only_its_processor_writes_a_global_store() -> None:
    class Writes(Lookup):
        def process(self, record: Record[str, str]) -> None:
            self.context.state_store("places").put("p", "mine")

    builder = sf.StreamsBuilder()
    builder.add_global_store(places(), "places", Upper, key=str, value=str)
    builder.stream("visits", key=str, value=str).process(Writes, stores=["places"])
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(sf.ProcessingError, match="may only read"),
    ):
        driver.input("visits", str, str).pipe("ann", "p")


@sf.with_stores(Stores.in_memory_key_value("seen", key=str, value=int), "labels")
class Labels(sf.ContextualProcessor[str, str, str, str]):
    """Counts a key's records in a store that it declares; labels belong to another processor."""

    def process(self, record: Record[str, str]) -> None:
        seen, labels = (self.context.state_store(name) for name in ("seen", "labels"))
        seen.put(record.key, seen.get(record.key, 0) + 1)
        self.context.forward(record.replace(value=f"{labels.get(record.key)}{seen.get(record.key)}"))


def test_with_stores() -> None:
    builder = sf.StreamsBuilder()
    builder.table("labels", key=str, value=str, store=sf.Materialized("labels"))
    builder.stream("in", key=str, value=str).process(Labels).to("out", key=str, value=str)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("labels", str, str).pipe("a", "x")
        source = driver.input("in", str, str)
        source.pipe("a", "1")
        driver.crash()
        driver.restart()
        source.pipe("a", "2")
        values = driver.output("out", str, str).read_values_to_list()
        assert [value and value[-1] for value in values] == ["1", "2"]
        assert all("x" in (value or "") for value in values)


def session_steps(store: Any, at: int) -> Any:
    one, two = Windowed("a", Window(10, 15)), Windowed("a", Window(30, 35))
    steps = (
        lambda: [store.put(one, 1), store.put(two, 2)],
        lambda: (list(store.fetch("a")), store.fetch_session("a", 30, 35), store.remove(one)),
        lambda: list(store.fetch("a")),
    )
    return steps[at]()


def versioned_steps(store: Any, at: int) -> Any:
    steps = (
        lambda: (store.put("a", 1, 10), store.put("a", 2, 30), store.put("a", 3, 20)),
        lambda: [found and found[:2] for found in (store.get("a"), store.get("a", as_of=25), store.get("a", as_of=5))],
        lambda: (store.delete("a", 40), store.get("a"), store.get("a", as_of=30)),
    )
    return steps[at]()


IN_MEMORY: list[tuple[sf.StoreBuilder[Any, Any], Any, Any, list[Any]]] = [
    (
        Stores.in_memory_session("s", "1h", key=str, value=int),
        Stores.persistent_session("s", "1h", key=str, value=int),
        session_steps,
        [([(Windowed("a", Window(10, 15)), 1), (Windowed("a", Window(30, 35)), 2)], 2, None)],
    ),
    (
        Stores.in_memory_versioned("s", "1h", key=str, value=int),
        Stores.persistent_versioned("s", "1h", key=str, value=int),
        versioned_steps,
        [[(2, 30), (3, 20), None]],
    ),
]


@pytest.mark.parametrize(("memory", "disk", "step", "second"), IN_MEMORY, ids=["session", "versioned"])
def test_stores_in_memory_are_those_on_disk(memory: Any, disk: Any, step: Any, second: list[Any]) -> None:
    """Also after a crash at each step: in-memory stores are restored from the changelog."""

    def play(store: sf.StoreBuilder[Any, Any]) -> list[Any]:
        given: list[Any] = []

        class Plays(sf.ContextualProcessor[str, str, str, str]):
            def process(self, record: Record[str, str]) -> None:
                given.append(step(self.context.state_store("s"), int(record.value or 0)))

        builder = sf.StreamsBuilder()
        builder.add_state_store(store)
        builder.stream("in", key=str, value=str).process(Plays, stores=["s"])
        with TopologyTestDriver(builder.build()) as driver:
            source = driver.input("in", str, str)
            for at in range(3):
                source.pipe("k", str(at), timestamp=at)
                driver.crash()
                driver.restart(lanes=2)
        return given

    found = play(memory)
    assert found == play(disk)
    assert found[1:2] == second


class Signed(sf.ValueTransformer[str, int, str]):
    """Reports how often it was called for a row."""

    def init(self, context: Any) -> None:
        self.calls = context.state_store("calls")

    def transform(self, key: str, value: int | None) -> str | None:
        self.calls.put(key, self.calls.get(key, 0) + 1)
        return None if value is None else f"{value:+}/{self.calls.get(key)}"


def test_transform_values() -> None:
    builder = sf.StreamsBuilder()
    builder.add_state_store(Stores.persistent_key_value("calls", key=str, value=int))
    rows = builder.table("rows", key=str, value=int, store="rows")
    signed = rows.transform_values(Signed, stores=["calls"], store=sf.Materialized("signed", value=str))
    signed.to_stream().to("out", key=str, value=str)
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("rows", str, int)
        source.pipe("a", 1)
        source.pipe("a", -2)
        source.pipe("b", 3)
        assert driver.store("signed").all() == {"a": "-2/2", "b": "+3/1"}
        source.pipe("a", None)
        assert driver.store("signed").all() == {"b": "+3/1"}
        out = driver.output("out", str, str).read_key_values_to_list()
        assert out == [("a", "+1/1"), ("a", "-2/2"), ("b", "+3/1"), ("a", None)]


def test_unlimited_windows() -> None:
    builder = sf.StreamsBuilder()
    windows = sf.UnlimitedWindows(100)
    counts = builder.stream("in", key=str, value=int).group_by_key().windowed_by(windows).count(store="counts")
    counts.to_stream(lambda key, value: f"{key.key}@{key.window.start}").to("out", key=str, value=int)
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in", str, int)
        for timestamp in (99, 100, 10**12, 101):
            source.pipe("a", 1, timestamp=timestamp)
        source.pipe("b", 1, timestamp=5 * 10**11)
        out = driver.output("out", str, int).read_key_values_to_list()
        assert out == [("a@100", 1), ("a@100", 2), ("a@100", 3), ("b@100", 1)]


def test_suppress_until_the_barrier() -> None:
    """One result per key and commit, whatever a crash repeats."""
    builder = sf.StreamsBuilder()
    counts = builder.stream("in", key=str, value=int).group_by_key().count(store="counts")
    counts.suppress(sf.Suppressed.until_barrier(), name="once").to_stream().to("out", key=str, value=int)
    with TopologyTestDriver(builder.build(), lanes=2) as driver:
        source, out = driver.input("in", str, int), driver.output("out", str, int)
        with driver.epoch():
            for key in "aaba":
                source.pipe(key, 1)
        assert sorted(out.read_key_values_to_list()) == [("a", 3), ("b", 1)]
        with driver.epoch():
            source.pipe("a", 1)
            source.pipe("a", 1)
            driver.crash()
            driver.restart(lanes=1)
        assert out.read_key_values_to_list() == [("a", 5)]


def suppressed(buffer: sf.Buffer, limit: str | None = None) -> sf.Topology:
    builder = sf.StreamsBuilder()
    windowed = builder.stream("in", key=str, value=str).group_by_key().windowed_by(sf.TimeWindows("10ms", grace="0s"))
    held = windowed.reduce(lambda agg, value: agg + value, store="held")
    how = sf.Suppressed.until_time_limit(limit, buffer) if limit else sf.Suppressed.until_window_closes(buffer)
    kept = held.suppress(how, name="kept").to_stream(lambda key, value: f"{key.key}{key.window.start}")
    kept.to("out", key=str, value=str)
    return builder.build()


def test_a_buffer_limited_in_bytes_emits_the_oldest_early() -> None:
    with TopologyTestDriver(suppressed(sf.Buffer(max_bytes=600), "1d")) as driver:
        source, out = driver.input("in", str, str), driver.output("out", str, str)
        source.pipe("a", "x", timestamp=1)
        source.pipe("b", "x", timestamp=2)
        assert out.is_empty
        source.pipe("c", "x" * 550, timestamp=3)
        early = out.read_key_values_to_list()
        assert early[:2] == [("a0", "x"), ("b0", "x")]


def test_a_full_strict_buffer_shuts_down() -> None:
    with TopologyTestDriver(suppressed(sf.Buffer(max_records=2, when_full="shutdown"))) as driver:
        source = driver.input("in", str, str)
        source.pipe("a", "x", timestamp=1)
        source.pipe("a", "y", timestamp=2)
        source.pipe("b", "x", timestamp=3)
        with pytest.raises(sf.StoatFlowError, match="kept"):
            source.pipe("c", "x", timestamp=4)


def test_a_buffer_shuts_down_by_bytes_too() -> None:
    with TopologyTestDriver(suppressed(sf.Buffer(max_bytes=600, when_full="shutdown"))) as driver:
        source = driver.input("in", str, str)
        source.pipe("a", "x", timestamp=1)
        with pytest.raises(sf.StoatFlowError, match="kept"):
            source.pipe("b", "x" * 600, timestamp=2)


def test_a_stream_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "printed.txt"
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=int, name="numbers")
    stream.print()
    stream.filter(sf.value > 1).print(sf.Printed.to_file(file, "large"))
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in", str, int)
        source.pipe("a", 1)
        source.pipe(None, 2)
    assert capsys.readouterr().out == "[numbers]: a, 1\n[numbers]: None, 2\n"
    assert file.read_text("utf-8") == "[large]: None, 2\n"


def test_a_pattern_of_topics() -> None:
    """On an embedded broker: matching topics must exist at the start, and the driver creates only named ones."""
    builder = sf.StreamsBuilder()
    builder.stream(re.compile("orders-.*"), key=str, value=str).to("out", key=str, value=str)
    with pytest.raises(sf.MissingTopicError, match="orders"):
        TopologyTestDriver(builder.build())
    config = {"application.id": "patterns", "default.dsl.store": "in_memory"}
    with sf.EmbeddedBroker() as broker:
        for topic in ("orders-eu", "orders-us", "old-orders-eu", "out"):
            broker.create_topic(topic)
        for number, topic in enumerate(("orders-eu", "old-orders-eu", "orders-us", "orders-eu")):
            broker.produce(topic, b"k", str(number).encode())
        with sf.StoatFlow(builder.build(), config, broker=broker) as app:
            deadline = time.monotonic() + 60
            while len(list(broker.read("out"))) < 3 and time.monotonic() < deadline:
                app.wait("20ms")
        assert sorted(r.value or b"" for r in broker.read("out")) == [b"0", b"2", b"3"]
