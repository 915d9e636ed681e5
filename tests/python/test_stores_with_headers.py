"""Stores that keep headers with each value: processors, changelogs, restores, queries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import stoatflow as sf
from http_calls import ask
from stoatflow import AggregationWithHeaders, Record, Stores, ValueTimestampHeaders, Window, Windowed
from stoatflow.errors import ConfigError, IncompatibleStateError, TopologyError
from stoatflow.testing import TopologyTestDriver

TRACE = (("trace", b"7f"), ("empty", None), ("trace", b""))


class Keeps(sf.ContextualProcessor[str, str, str, str]):
    """Keeps each record with its headers, one millisecond later; forwards what was there before.

    `test_outputs_are_those_of_kafka_streams` has what Kafka Streams 4.4.0 gave for the same processor.
    """

    def process(self, record: Record[str, str]) -> None:
        store = self.context.state_store("last")
        before = store.get(record.key)
        headers = TRACE if record.value == "traced" else record.headers
        after = ValueTimestampHeaders(record.value, record.timestamp + 1, headers)
        store.put(record.key, None if record.value is None else after)
        self.context.forward(record.replace(value=repr(before)))


def topology(kind: Any = Stores.in_memory_timestamped_key_value, **options: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    builder.add_state_store(kind("last", **{"key": str, "value": str, "headers": True, **options}))
    builder.stream("in", key=str, value=str).process(Keeps, stores=["last"]).to("out", key=str, value=str)
    return builder.build()


@pytest.mark.parametrize("kind", [Stores.in_memory_timestamped_key_value, Stores.persistent_timestamped_key_value])
@pytest.mark.parametrize("crash", [False, True])
def test_values_come_back_with_their_headers(kind: Any, crash: bool) -> None:
    with TopologyTestDriver(topology(kind)) as driver:
        given, out = driver.input("in", str, str), driver.output("out", str, str)
        for at, (value, headers) in enumerate([("1", TRACE), ("2", ()), (None, TRACE), ("3", ())]):
            given.pipe("k", value, timestamp=at, headers=list(headers))
            if crash:
                driver.crash()
                driver.restart(lanes=2)
        assert out.read_values_to_list() == [
            "None",
            repr(ValueTimestampHeaders("1", 1, TRACE)),
            repr(ValueTimestampHeaders("2", 2, ())),
            "None",
        ]
        store = driver.store("last")
        assert (store.get("k"), store.headers("k"), store.headers("z")) == ("3", (), None)
        assert store.entry("k").timestamp == 4


def test_outputs_are_those_of_kafka_streams() -> None:
    """Recorded from a TopologyTestDriver of Kafka Streams 4.4.0 with `timestampedKeyValueStoreWithHeadersBuilder`."""
    given = [("k", "1", 10), ("k", "2", 12), ("l", "3", 5), ("k", None, 14), ("m", "9", 300_000)]
    with TopologyTestDriver(topology()) as driver:
        for number, (key, value, time) in enumerate(given, 1):
            driver.input("in", str, str).pipe(key, value, timestamp=time, headers=[("h", b"a%d" % number)])
        out = driver.output("out", str, str).read_all()
        assert [(record.key, record.value, record.timestamp, record.headers) for record in out] == [
            ("k", "None", 10, (("h", b"a1"),)),
            ("k", repr(ValueTimestampHeaders("1", 11, (("h", b"a1"),))), 12, (("h", b"a2"),)),
            ("l", "None", 5, (("h", b"a3"),)),
            ("k", repr(ValueTimestampHeaders("2", 13, (("h", b"a2"),))), 14, (("h", b"a4"),)),
            ("m", "None", 300_000, (("h", b"a5"),)),
        ]
        assert driver.store("last").all() == {"l": "3", "m": "9"}
        assert driver.store("last").headers("m") == (("h", b"a5"),)


class KeepsWindow(sf.ContextualProcessor[str, str, str, str]):
    """As `Keeps`, in a window that starts at 0."""

    def process(self, record: Record[str, str]) -> None:
        store = self.context.state_store("last")
        before = store.fetch(record.key, 0)
        after = ValueTimestampHeaders(record.value, record.timestamp + 1, record.headers)
        store.put(record.key, None if record.value is None else after, 0)
        self.context.forward(record.replace(value=f"{before and (before.value, before.headers[0][1])}"))


class KeepsSession(sf.ContextualProcessor[str, str, str, str]):
    """As `Keeps`, in a session from 0 to 5."""

    def process(self, record: Record[str, str]) -> None:
        store = self.context.state_store("last")
        before = store.fetch_session(record.key, 0, 5)
        after = AggregationWithHeaders(record.value, record.headers)
        store.put(Windowed(record.key, Window(0, 5)), None if record.value is None else after)
        self.context.forward(record.replace(value=f"{before and (before.aggregation, before.headers[0][1])}"))


@pytest.mark.parametrize(
    ("store", "processor"),
    [
        (Stores.persistent_timestamped_window("last", "1h", "100ms", key=str, value=str, headers=True), KeepsWindow),
        (Stores.persistent_session("last", "1h", key=str, value=str, headers=True), KeepsSession),
    ],
)
def test_windows_and_sessions_are_those_of_kafka_streams(store: Any, processor: Any) -> None:
    """Recorded from Kafka Streams 4.4.0, with its builders of window and session stores with headers."""
    builder = sf.StreamsBuilder()
    builder.add_state_store(store)
    builder.stream("in", key=str, value=str).process(processor, stores=["last"]).to("out", key=str, value=str)
    given = [("k", "1", 10), ("k", "2", 12), ("l", "3", 5), ("k", None, 14), ("m", "9", 300_000)]
    with TopologyTestDriver(builder.build()) as driver:
        for number, (key, value, time) in enumerate(given, 1):
            driver.input("in", str, str).pipe(key, value, timestamp=time, headers=[("h", b"a%d" % number)])
        out = driver.output("out", str, str).read_all()
        assert [(record.key, record.value, record.timestamp, record.headers[0][1]) for record in out] == [
            ("k", "None", 10, b"a1"),
            ("k", "('1', b'a1')", 12, b"a2"),
            ("l", "None", 5, b"a3"),
            ("k", "('2', b'a2')", 14, b"a4"),
            ("m", "None", 300_000, b"a5"),
        ]


def test_windows_keep_headers() -> None:
    store = Stores.persistent_timestamped_window("w", "1h", "1m", key=str, value=int, headers=True)
    with sf.testing.MockProcessorContext(store) as context:
        windows = context.state_store("w")
        windows.put("k", ValueTimestampHeaders(1, 5, TRACE), 0)
        windows.put("k", ValueTimestampHeaders(2, 6), 60_000)
        assert windows.fetch("k", 0) == ValueTimestampHeaders(1, 5, TRACE)
        assert [value for _, value in windows.fetch("k", frm=0, to=60_000)] == [
            ValueTimestampHeaders(1, 5, TRACE),
            ValueTimestampHeaders(2, 6, ()),
        ]


def test_methods_of_a_store_take_and_return_headers() -> None:
    store = Stores.in_memory_timestamped_key_value("s", key=str, value=int, headers=True)
    one, two = ValueTimestampHeaders(1, 5, TRACE), ValueTimestampHeaders(2, 6, ())
    with sf.testing.MockProcessorContext(store) as context:
        kept = context.state_store("s")
        assert kept.put_if_absent("a", one) is None
        assert kept.put_if_absent("a", two) == one
        kept.put_all({"b": two})
        assert list(kept.all()) == [("a", one), ("b", two)]
        assert kept.compute("a", lambda key, found: found._replace(value=found.value + 9)) == one._replace(value=10)
        assert kept.delete("b") == two
        with pytest.raises(TypeError, match=r"put ValueTimestampHeaders\(value, record.timestamp, record.headers\)"):
            kept.put("a", sf.ValueAndTimestamp(1, 2))


def test_sessions_keep_headers() -> None:
    store = Stores.in_memory_session("s", "1h", key=str, value=int, headers=True)
    with sf.testing.MockProcessorContext(store) as context:
        sessions = context.state_store("s")
        sessions.put(Windowed("k", Window(0, 5)), AggregationWithHeaders(1, TRACE))
        sessions.put(Windowed("k", Window(50, 60)), AggregationWithHeaders(2))
        assert sessions.fetch_session("k", 0, 5) == AggregationWithHeaders(1, TRACE)
        assert [value for _, value in sessions.fetch("k")] == [
            AggregationWithHeaders(1, TRACE),
            AggregationWithHeaders(2, ()),
        ]
        sessions.put(Windowed("k", Window(0, 5)), None)
        sessions.remove(Windowed("k", Window(50, 60)))
        assert list(sessions.fetch("k")) == []
        with pytest.raises(TypeError, match=r"put AggregationWithHeaders\(value, record.headers\)"):
            sessions.put(Windowed("k", Window(0, 5)), 3)


class ListSerde(sf.Serde[Any]):
    """A serde in Python, of values that can be changed in place."""

    def serialize(self, value: Any) -> bytes:
        return json.dumps(value).encode()

    def deserialize(self, data: bytes) -> Any:
        return json.loads(data)


def test_a_value_that_is_changed_in_place_stays_as_it_was_put() -> None:
    store = Stores.in_memory_timestamped_key_value("s", key=str, value=ListSerde(), headers=True)
    sessions = Stores.in_memory_session("t", "1h", key=str, value=ListSerde(), headers=True)
    with sf.testing.MockProcessorContext(store, sessions) as context:
        kept, given = context.state_store("s"), [1]
        kept.put("k", ValueTimestampHeaders(given, 5, TRACE))
        given.append(2)
        kept.get("k").value.append(3)
        next(iter(kept.all()))[1].value.append(4)
        kept.put_if_absent("k", ValueTimestampHeaders([], 6, ())).value.append(5)
        assert kept.get("k") == ValueTimestampHeaders([1], 5, TRACE)
        visits, session = context.state_store("t"), Windowed("k", Window(0, 5))
        visits.put(session, AggregationWithHeaders([1], TRACE))
        visits.fetch_session("k", 0, 5).aggregation.append(2)
        assert visits.fetch_session("k", 0, 5) == AggregationWithHeaders([1], TRACE)


@pytest.mark.parametrize("ttl", ["100ms", sf.value["keep_ms"]])
def test_rows_with_headers_expire(ttl: Any) -> None:
    """An expression of a row reads the value without its headers."""

    class Puts(sf.ContextualProcessor[str, Any, str, Any]):
        def process(self, record: Record[str, Any]) -> None:
            kept = self.context.state_store("last")
            found = kept.get("k")
            self.context.forward(record.replace(value=None if found is None else found.headers[0][0]))
            if record.value is not None:
                kept.put("k", ValueTimestampHeaders(record.value, record.timestamp, TRACE))

    builder = sf.StreamsBuilder()
    builder.add_state_store(
        Stores.in_memory_timestamped_key_value("last", key=str, value=sf.Serdes.json(), headers=True, ttl=ttl)
    )
    stream = builder.stream("in", key=str, value=sf.Serdes.json()).process(Puts, stores=["last"])
    stream.to("out", key=str, value=sf.Serdes.json())
    with TopologyTestDriver(builder.build()) as driver:
        given = driver.input("in", str, sf.Serdes.json())
        given.pipe("k", {"keep_ms": 100}, timestamp=0)
        for time in (99, 100):
            given.pipe("k", None, timestamp=time)
        assert driver.output("out", str, sf.Serdes.json()).read_values_to_list() == [None, "trace", None]
        assert driver.store("last").all() == {}


def run(broker: sf.EmbeddedBroker, topology: sf.Topology, state: Path, **settings: Any) -> sf.StoatFlow:
    given = {"application.id": "app", "state.dir": str(state), **settings}
    return sf.StoatFlow(topology, given, broker=broker)


def records(broker: sf.EmbeddedBroker, topic: str, state: Path) -> list[Any]:
    """The records of a topic, read by another application."""
    seen: list[Any] = []

    class Sees(sf.ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            seen.append((record.key, record.value, record.timestamp, record.headers))

    builder = sf.StreamsBuilder()
    builder.stream(topic, key=str, value=str).process(Sees)
    with run(broker, builder.build(), state, **{"application.id": "reads"}) as app:
        app.wait_until(caught_up=True)
    return sorted(seen)


def test_the_changelog_has_plain_values_and_the_headers_of_records(tmp_path: Path) -> None:
    with sf.EmbeddedBroker() as broker:
        broker.create_topic("in")
        broker.create_topic("out")
        broker.produce("in", "k", "traced", timestamp=10)
        broker.produce("in", "l", "2", timestamp=11)
        with run(broker, topology(Stores.persistent_timestamped_key_value), tmp_path) as app:
            app.wait_until(caught_up=True)
            kept = app.store("last", headers=True)
            assert kept.get("k") == ValueTimestampHeaders("traced", 11, TRACE)
            assert dict(kept.all())["l"] == ValueTimestampHeaders("2", 12, ())
            assert app.store("last").get("k") == "traced"
            assert app.store("last", timestamps=True).get("k") == sf.ValueAndTimestamp("traced", 11)
            with app.snapshot() as at:
                assert at.store("last", headers=True).get("k") == kept.get("k")
            assert app.to_arrow("last").column("value").to_pylist() == ["traced", "2"]
            assert pyarrow.table(kept).column("value").to_pylist() == ["traced", "2"]
            assert app.store("last").find(sf.value == "traced", allow_scan=True) == [("k", "traced")]
            assert ask(app.admin_url, "/stores/last/k").json()["value"] == "traced"
            with pytest.raises(ConfigError, match=r"leave headers= out"):
                kept.find(sf.value == "traced", allow_scan=True)
            with pytest.raises(ConfigError, match=r"values without their headers. Next: follow app.store\('last'\)"):
                kept.follow()
            with app.store("last").follow() as changes:
                assert next(changes).rows == [("k", "traced"), ("l", "2")]
        assert records(broker, "app-last-changelog", tmp_path) == [
            ("k", "traced", 11, TRACE),
            ("l", "2", 12, ()),
        ]
        # On another disk everything is restored from the changelog.
        with run(broker, topology(Stores.persistent_timestamped_key_value), tmp_path / "new") as app:
            app.wait_until(caught_up=True)
            assert app.store("last", headers=True).get("k") == ValueTimestampHeaders("traced", 11, TRACE)


def test_queries_of_values_with_a_serde_in_python_and_of_sessions(tmp_path: Path) -> None:
    """As committed, also after a restore from the changelogs."""

    class Puts(sf.ContextualProcessor[str, Any, str, Any]):
        def process(self, record: Record[str, Any]) -> None:
            value = ValueTimestampHeaders([record.key], record.timestamp, TRACE)
            self.context.state_store("lists").put(record.key, value)
            self.context.state_store("windows").put(record.key, value, 0)
            session = Windowed(record.key, Window(0, 5))
            self.context.state_store("sessions").put(session, AggregationWithHeaders([1], TRACE))

    def build() -> sf.Topology:
        builder = sf.StreamsBuilder()
        how: dict[str, Any] = {"key": str, "value": ListSerde(), "headers": True}
        builder.add_state_store(Stores.persistent_timestamped_key_value("lists", **how))
        builder.add_state_store(Stores.persistent_timestamped_window("windows", "1h", "1m", **how))
        builder.add_state_store(Stores.persistent_session("sessions", "1h", **how))
        builder.stream("in", key=str, value=str).process(Puts, stores=["lists", "windows", "sessions"])
        return builder.build()

    with sf.EmbeddedBroker() as broker:
        broker.create_topic("in")
        broker.produce("in", "k", "v", timestamp=10)
        for state in (tmp_path, tmp_path, tmp_path / "new"):
            with run(broker, build(), state) as app:
                app.wait_until(caught_up=True)
                assert app.store("lists").get("k") == ["k"]
                assert app.store("lists", headers=True).get("k") == ValueTimestampHeaders(["k"], 10, TRACE)
                windows = app.store("windows", headers=True)
                assert windows.fetch("k", 0) == ValueTimestampHeaders(["k"], 10, TRACE)
                assert app.store("windows").fetch("k", 0) == ["k"]
                window = Windowed("k", Window(0, 5))
                found = app.store("sessions", headers=True).fetch("k")
                assert found == [(window, ValueTimestampHeaders([1], 10, TRACE))]
                assert app.store("sessions").fetch("k") == [(window, [1])]


def test_a_store_gets_headers_and_loses_them_again(tmp_path: Path) -> None:
    kind = Stores.persistent_timestamped_key_value
    with sf.EmbeddedBroker() as broker:
        broker.create_topic("in")
        broker.create_topic("out")
        broker.produce("in", "k", "traced", timestamp=10)
        with run(broker, topology(kind), tmp_path) as app:
            app.wait_until(caught_up=True)
        plain = sf.StreamsBuilder()
        plain.add_state_store(kind("last", key=str, value=str))
        plain.stream("in", key=str, value=str).process(Keeps, stores=["last"]).to("out", key=str, value=str)
        without = plain.build()
        refused = pytest.raises(IncompatibleStateError, match=r"(?s)\(headers\).*rebuilt from the changelog")
        with refused, run(broker, without, tmp_path) as app:
            app.wait_until(caught_up=True)
        with run(broker, without, tmp_path, **{"state.damaged": "rebuild"}) as app:
            app.wait_until(caught_up=True)
            assert app.store("last").get("k") == "traced"
            with pytest.raises(ConfigError, match="keeps no headers"):
                app.store("last", headers=True).get("k")
        with run(broker, topology(kind), tmp_path, **{"state.damaged": "rebuild"}) as app:
            app.wait_until(caught_up=True)
            assert app.store("last", headers=True).get("k") == ValueTimestampHeaders("traced", 11, TRACE)


def test_stores_that_can_not_have_headers_are_refused_by_name() -> None:
    with pytest.raises(TopologyError, match="a store with headers has no indexes"):
        topology(indexes=[sf.Index("city", sf.value["city"])], value=dict)
    builder = sf.StreamsBuilder()
    plain = Stores.in_memory_key_value("last", key=str, value=str)
    builder.add_state_store(sf.StoreBuilder(plain.name, plain.kind, plain.key, plain.value, headers=True))
    with pytest.raises(TopologyError, match="only session stores, and key-value and window stores with timestamps"):
        builder.build()
    store = Stores.in_memory_timestamped_key_value("last", key=str, value=str, headers=True)
    with pytest.raises(TopologyError, match="the global store 'last' keeps no headers"):
        sf.StreamsBuilder().add_global_store(store, "in", Keeps)


@pytest.mark.parametrize("value", ["HEADERS", "headers", "DEFAULT"])
def test_the_format_of_kafka_streams_is_accepted(value: str) -> None:
    builder = sf.StreamsBuilder()
    table = builder.table("in", key=str, value=str, store="kept")
    table.to_stream().to("out", key=str, value=str)
    with TopologyTestDriver(builder.build(), {"application.id": "app", "dsl.store.format": value}) as driver:
        driver.input("in", str, str).pipe("k", "1", timestamp=1, headers=list(TRACE))
        assert driver.output("out", str, str).read().headers == TRACE


def test_other_formats_are_refused() -> None:
    with pytest.raises(ConfigError, match="write DEFAULT or HEADERS"):
        sf.Settings({"application.id": "app", "dsl.store.format": "plain"}).check()
