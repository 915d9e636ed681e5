"""Stores of processors whose rows expire: what a processor sees, and what is deleted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import stoatflow as sf
from stoatflow import Record, Stores, ValueAndTimestamp
from stoatflow.testing import MockProcessorContext, TopologyTestDriver

LANES = pytest.mark.parametrize("lanes", [1, 5])
Step = Callable[[Any], Any]
KEPT = Stores.persistent_key_value("kept", key=str, value=int, ttl="100ms")


class Play:
    """A topology that runs a step with the store for each record, and the results of the steps."""

    def __init__(self, store: sf.StoreBuilder[Any, Any], *, lanes: int = 1, start: int = 0) -> None:
        """Start its driver."""
        self.steps: list[Step] = []
        self.results: list[Any] = []
        play = self

        class Plays(sf.ContextualProcessor[str, str, str, str]):
            def process(self, record: Record[str, str]) -> None:
                kept = self.context.state_store("kept")
                play.results.append(play.steps.pop(0)(kept))

        builder = sf.StreamsBuilder()
        builder.add_state_store(store)
        builder.stream("in", key=str, value=str).process(Plays, stores=["kept"])
        self.driver = TopologyTestDriver(builder.build(), lanes=lanes, start=start)

    def __enter__(self) -> Play:
        self.driver.__enter__()
        return self

    def __exit__(self, *failed: object) -> None:
        self.driver.__exit__(*failed)

    def at(self, time: int, step: Step = lambda _: None) -> Any:
        """Run a step for a record of this time; a barrier follows."""
        self.steps.append(step)
        self.driver.input("in", str, str).pipe("k", "", timestamp=time)
        return self.results[-1]

    @property
    def rows(self) -> dict[Any, Any]:
        """The committed rows."""
        return dict(self.driver.store("kept").all())


WRITES: dict[str, Step] = {
    "put": lambda s: s.put("a", 2),
    "item": lambda s: s.__setitem__("a", 2),
    "put_all": lambda s: s.put_all({"a": 2}),
    "compute": lambda s: s.compute("a", lambda *_: 2),
    "compute_if_present": lambda s: s.compute_if_present("a", lambda *_: 2),
    "merge": lambda s: s.merge("a", 1, lambda had, more: had + more),
}


@LANES
def test_rows_expire_by_stream_time(lanes: int) -> None:
    with Play(KEPT, lanes=lanes) as play:
        play.at(0, lambda s: s.put("a", 1))
        play.at(50, lambda s: s.put("b", 2))
        play.driver.advance("1h")
        play.at(99)
        assert play.rows == {"a": 1, "b": 2}
        play.at(100)
        assert play.rows == {"b": 2}
        play.at(149)
        assert play.rows == {"b": 2}
        play.at(150)
        assert play.rows == {}


@LANES
@pytest.mark.parametrize("write", WRITES)
def test_each_write_counts_anew(lanes: int, write: str) -> None:
    with Play(KEPT, lanes=lanes) as play:
        play.at(0, lambda s: s.put("a", 1))
        play.at(60, WRITES[write])
        play.at(159)
        assert play.rows == {"a": 2}
        play.at(160)
        assert play.rows == {}


@LANES
@pytest.mark.parametrize(
    "write",
    [
        lambda s: s.put_if_absent("a", 1),
        lambda s: s.compute_if_absent("a", lambda _: 1),
        lambda s: s.merge("a", 1, max),
        lambda s: s.compute("a", lambda *_: 1),
    ],
)
def test_a_first_write_expires(lanes: int, write: Step) -> None:
    with Play(KEPT, lanes=lanes) as play:
        play.at(10, write)
        play.at(109)
        assert play.rows == {"a": 1}
        play.at(110)
        assert play.rows == {}


def test_a_read_never_returns_a_row_that_is_due() -> None:
    """The record that makes a row due is processed before the barrier that deletes it."""
    reads: list[tuple[Step, Any]] = [
        (lambda s: s.get("a"), None),
        (lambda s: "a" in s, False),
        (lambda s: dict(s.all()), {"b": 2}),
        (lambda s: dict(s.range("a", "b")), {"b": 2}),
        (lambda s: dict(s.prefix_scan("a")), {}),
        (list, ["b"]),
        (lambda s: s.delete("a"), None),
        (lambda s: s.put_if_absent("a", 5), None),
        (lambda s: s.compute("a", lambda _, had: 5 if had is None else had), 5),
        (lambda s: s.compute_if_absent("a", lambda _: 5), 5),
        (lambda s: s.compute_if_present("a", lambda *_: 5), None),
        (lambda s: s.merge("a", 5, lambda had, more: had + more), 5),
    ]
    for read, expected in reads:
        with Play(KEPT) as play:
            play.at(0, lambda s: s.put("a", 1))
            play.at(50, lambda s: s.put("b", 2))
            assert play.at(99, lambda s: s.get("a")) == 1
            assert play.at(100, read) == expected


def test_what_is_written_over_a_due_row_lives_its_own_time() -> None:
    with Play(KEPT) as play:
        play.at(0, lambda s: s.put("a", 1))
        assert play.at(100, lambda s: s.put_if_absent("a", 2)) is None
        assert play.at(150, lambda s: s.put_if_absent("a", 3)) == 2
        play.at(199)
        assert play.rows == {"a": 2}
        play.at(200)
        assert play.rows == {}


@LANES
def test_a_deleted_row_takes_its_expiry_with_it(lanes: int) -> None:
    with Play(KEPT, lanes=lanes) as play:
        play.at(0, lambda s: s.put("a", 1))
        assert play.at(10, lambda s: s.delete("a")) == 1
        play.at(90, lambda s: s.put("a", 2))
        play.at(101)
        play.at(189)
        assert play.rows == {"a": 2}
        play.at(190)
        assert play.rows == {}


@LANES
@pytest.mark.parametrize("make", [Stores.persistent_timestamped_key_value, Stores.in_memory_timestamped_key_value])
def test_a_timestamped_store_counts_from_the_timestamp_of_the_value(make: Any, lanes: int) -> None:
    with Play(make("kept", key=str, value=int, ttl="100ms"), lanes=lanes) as play:
        play.at(0, lambda s: s.put("a", ValueAndTimestamp(1, 50)))
        play.at(149)
        assert play.rows == {"a": 1}
        play.at(150)
        assert play.rows == {}


@LANES
def test_rows_expire_by_the_clock(lanes: int) -> None:
    kept = Stores.in_memory_key_value("kept", key=str, value=int, ttl="100ms", ttl_time="processing")
    with Play(kept, lanes=lanes, start=1_000) as play:
        play.at(1_000, lambda s: s.put("a", 1))
        play.at(1_050, lambda s: s.put("b", 1))
        play.at(9_000)
        play.driver.advance("99ms")
        assert set(play.rows) == {"a", "b"}
        play.driver.advance("1ms")
        assert set(play.rows) == {"b"}
        assert play.at(9_000, lambda s: s.get("b")) == 1
        play.driver.advance("50ms")
        assert play.rows == {}


@LANES
def test_a_ttl_per_row(lanes: int) -> None:
    kept = Stores.persistent_key_value("kept", key=str, value=dict, ttl=sf.value["ttl"])
    with Play(kept, lanes=lanes) as play:
        rows = {"short": {"ttl": 100}, "long": {"ttl": 1_000}, "ever": {"ttl": None}, "ever too": {}}
        play.at(0, lambda s: s.put_all(rows))
        assert play.at(100, lambda s: s.get("short")) is None
        assert set(play.rows) == {"long", "ever", "ever too"}
        play.at(500, lambda s: s.put("long", {"ttl": 50}))
        play.at(549)
        assert set(play.rows) == {"long", "ever", "ever too"}
        play.at(550)
        assert set(play.rows) == {"ever", "ever too"}


def test_a_ttl_that_is_not_a_number() -> None:
    kept = Stores.persistent_key_value("kept", key=str, value=dict, ttl=sf.value["ttl"])
    with (
        pytest.raises(sf.ProcessingError, match="the ttl of a row is milliseconds, an int, or null"),
        Play(kept) as play,
    ):
        play.at(0, lambda s: s.put("a", {"ttl": "1h"}))


def test_a_unique_value_is_free_again() -> None:
    by_name = sf.Index("by_name", sf.value["name"], unique=True)
    kept = Stores.persistent_key_value("kept", key=str, value=dict, ttl="100ms", indexes=[by_name])
    with Play(kept) as play:
        play.at(0, lambda s: s.put("a", {"name": "ann"}))
        play.at(50, lambda s: s.put("b", {"name": "bob"}))
        play.at(100)
        play.at(110, lambda s: s.put("c", {"name": "ann"}))
        assert set(play.rows) == {"b", "c"}
        with pytest.raises(sf.ProcessingError):
            play.at(120, lambda s: s.put("d", {"name": "bob"}))


class Puts(sf.ContextualProcessor[str, int, str, int]):
    def process(self, record: Record[str, int]) -> None:
        self.context.state_store("kept").put(record.key, record.value)


class Reads(sf.ContextualProcessor[str, int, str, int]):
    def process(self, record: Record[str, int]) -> None:
        found = self.context.state_store("kept").get(record.key)
        self.context.forward(Record(record.key, -1 if found is None else found, record.timestamp))


@LANES
@pytest.mark.parametrize("moved", [False, True])
def test_processors_that_share_a_store(lanes: int, moved: bool) -> None:
    """Both see the same expiry, also behind a change of key."""
    builder = sf.StreamsBuilder().add_state_store(KEPT)
    puts = builder.stream("puts", key=str, value=int)
    reads = builder.stream("reads", key=str, value=int)
    if moved:
        puts, reads = (side.select_key(lambda key, _: key) for side in (puts, reads))
    puts.process(Puts, stores=["kept"])
    reads.process(Reads, stores=["kept"]).to("out", key=str, value=int)
    with TopologyTestDriver(builder.build(), lanes=lanes) as driver:
        driver.input("puts", str, int).pipe("a", 7, timestamp=0)
        for time in (50, 99, 100, 101):
            driver.input("reads", str, int).pipe("a", 0, timestamp=time)
        assert driver.output("out", str, int).read_values_to_list() == [7, 7, -1, -1]
        assert dict(driver.store("kept").all()) == {}


@LANES
def test_writes_of_timers_and_schedules_expire(lanes: int) -> None:
    class Later(sf.ContextualProcessor[str, int, str, int]):
        def init(self, context: Any) -> None:
            super().init(context)
            context.schedule("10ms", sf.PunctuationType.STREAM_TIME, self.tick)

        def tick(self, timestamp: int) -> None:
            if timestamp == 20:
                self.context.state_store("kept").put("of a schedule", 1)

        def process(self, record: Record[str, int]) -> None:
            if record.value:
                self.context.state_store("timers").register(record.timestamp + 30)

        def on_timer(self, timer: sf.Timer[str]) -> None:
            self.context.state_store("kept").put("of a timer", timer.at)

    builder = sf.StreamsBuilder().add_state_store(KEPT).add_state_store(Stores.timers("timers", key=str))
    builder.stream("in", key=str, value=int).process(Later, stores=["kept", "timers"])
    with TopologyTestDriver(builder.build(), lanes=lanes) as driver:
        topic = driver.input("in", str, int)
        topic.pipe("a", 1, timestamp=0)
        topic.pipe("a", 0, timestamp=20)
        topic.pipe("a", 0, timestamp=30)
        assert set(dict(driver.store("kept").all())) == {"of a schedule", "of a timer"}
        topic.pipe("a", 0, timestamp=120)
        assert set(dict(driver.store("kept").all())) == {"of a timer"}
        topic.pipe("a", 0, timestamp=130)
        assert dict(driver.store("kept").all()) == {}


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_crash_brings_no_expired_row_back(lanes: int) -> None:
    with Play(KEPT, lanes=lanes) as play:
        play.at(0, lambda s: s.put_all({f"k{n}": n for n in range(20)}))
        play.at(50, lambda s: s.put_all({f"k{n}": n for n in range(10, 30)}))
        play.at(100)
        assert set(play.rows) == {f"k{n}" for n in range(10, 30)}
        play.driver.crash()
        play.driver.restart(lanes=4 - lanes)
        assert set(play.rows) == {f"k{n}" for n in range(10, 30)}
        assert play.at(149, lambda s: len(dict(s.all()))) == 20
        assert play.at(150, lambda s: len(dict(s.all()))) == 0
        assert play.rows == {}


def test_a_mock_context_has_it_too() -> None:
    with MockProcessorContext(KEPT) as context:
        kept = context.state_store("kept")
        kept.put("a", 1)
        assert kept.get("a") == 1


@pytest.mark.parametrize(
    ("store", "what"),
    [
        (Stores.window("kept", "1h", "1m"), "a window store has a retention"),
        (Stores.session("kept", "1h"), "a session store has a retention"),
        (Stores.versioned("kept", "1h"), "a versioned store has a history_retention"),
        (Stores.timers("kept"), "a timer is deleted when it fires"),
    ],
)
def test_other_kinds_of_stores_are_refused(store: sf.StoreBuilder[Any, Any], what: str) -> None:
    with pytest.raises(sf.TopologyError, match=what):
        replace(store, ttl="1h")


def processed(store: sf.StoreBuilder[Any, Any]) -> sf.Topology:
    builder = sf.StreamsBuilder().add_state_store(store)
    builder.stream("in", key=str, value=int).process(Puts, stores=["kept"])
    return builder.build()


def transformed(store: sf.StoreBuilder[Any, Any]) -> sf.Topology:
    class Same(sf.ValueTransformer[str, int, int]):
        def transform(self, key: str, value: int | None) -> int | None:
            return value

    builder = sf.StreamsBuilder().add_state_store(store)
    builder.table("in", key=str, value=int).transform_values(Same, stores=["kept"])
    return builder.build()


def of_global(store: sf.StoreBuilder[Any, Any]) -> sf.Topology:
    return sf.StreamsBuilder().add_global_store(store, "in", Puts, key=str, value=int).build()


def ttl(ttl: Any, **more: Any) -> sf.StoreBuilder[Any, Any]:
    return Stores.key_value("kept", key=str, value=int, ttl=ttl, **more)


@pytest.mark.parametrize(
    ("build", "store", "what"),
    [
        (processed, ttl("0s"), "Stores(ttl=)"),
        (processed, ttl("1s", ttl_time="wall"), "Stores(ttl_time='wall') is not known"),
        (processed, ttl(None, ttl_time="event"), "Stores(ttl_time=) is given without ttl="),
        (processed, ttl(sf.key.str.upper()), "it gives str, but the ttl of a row is milliseconds, an int"),
        (processed, ttl(sf.lit(5)), "the ttl of a row is made of the row"),
        (transformed, ttl("1s"), "can't use 'kept', whose rows expire"),
        (of_global, ttl("1s"), "the global store 'kept' has no ttl"),
    ],
)
def test_a_ttl_is_refused_where_it_has_no_meaning(build: Any, store: Any, what: str) -> None:
    with pytest.raises((sf.TopologyError, sf.ConfigError)) as caught:
        build(store)
    assert what in str(caught.value)


def test_two_processors_bring_different_ttls_along() -> None:
    def bringing(kept: sf.StoreBuilder[Any, Any]) -> type:
        class Brings(Puts):
            @classmethod
            def stores(cls) -> list[sf.StoreBuilder[Any, Any]]:
                return [kept]

        return Brings

    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.process(bringing(ttl("1s")))
    stream.process(bringing(ttl("1s")))
    with pytest.raises(sf.TopologyError, match="two different stores are named 'kept'"):
        stream.process(bringing(ttl("2s")))
    assert "kept-expiry" in {store["name"] for store in stores(builder.build())}


def stores(topology: sf.Topology) -> list[dict[str, Any]]:
    return list(json.loads(topology.plan.physical_json)["stores"])
