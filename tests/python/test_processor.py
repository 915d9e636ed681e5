"""Processors: forwarding, children, stores, schedules, and what is rejected."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import stoatflow as sf
from stoatflow import PunctuationType, Record, Stores
from stoatflow.testing import TopologyTestDriver


def through(supplier: Any, *, stores: tuple[Any, ...] = (), values: bool = False, value: Any = str) -> sf.Topology:
    builder = sf.StreamsBuilder()
    for store in stores:
        builder.add_state_store(store)
    stream = builder.stream("in", key=str, value=str)
    names = [store.name for store in stores]
    made = stream.process_values(supplier, stores=names) if values else stream.process(supplier, stores=names)
    made.to("out", key=str, value=value)
    return builder.build()


def run(topology: sf.Topology, *pairs: tuple[Any, Any], lanes: int = 1, value: Any = str) -> list[Record[Any, Any]]:
    with TopologyTestDriver(topology, lanes=lanes) as driver:
        topic = driver.input("in", str, str)
        for at, (key, text) in enumerate(pairs):
            topic.pipe(key, text, timestamp=at, headers=[("h", b"1")])
        return driver.output("out", str, value).read_all()


class Shout(sf.ContextualProcessor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.replace(value=(record.value or "").upper()))


def test_a_class_is_a_supplier() -> None:
    assert run(through(Shout), ("a", "x")) == [Record("a", "X", 0, (("h", b"1"),))]


def test_one_instance_per_lane() -> None:
    made = []

    class Kept(Shout):
        def init(self, context: Any) -> None:
            super().init(context)
            made.append(context.lane)

    run(through(Kept), ("a", "x"), lanes=3)
    assert sorted(made) == [0, 1, 2]


def test_nothing_works_after_the_call_or_in_another_thread() -> None:
    kept: list[Any] = []
    seen: list[BaseException] = []

    class Leaks(sf.ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            store = self.context.state_store("s")
            kept.extend([self.context, store])

            def elsewhere() -> None:
                try:
                    store.get("a")
                except sf.ProcessingError as error:
                    seen.append(error)

            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()

    run(through(Leaks, stores=(Stores.persistent_key_value("s", key=str, value=str),)), ("a", "x"))
    assert "another thread" in str(seen[0])
    context, store = kept
    uses: list[Callable[[], object]] = [
        lambda: store.get("a"),
        lambda: context.stream_time_ms,
        lambda: context.forward(Record("a", "b", 1)),
    ]
    for use in uses:
        with pytest.raises(sf.ProcessingError, match="outside of a call"):
            use()


def test_an_error_names_its_place() -> None:
    class Fails(Shout):
        def process(self, record: Record[str, str]) -> None:
            raise LookupError("no luck")

    with pytest.raises(sf.ProcessingError, match="LookupError: no luck") as caught:
        run(through(Fails), ("a", "x"))
    assert "test_processor.py" in str(caught.value)
    assert caught.value.coordinates["topic"] == "in"
    assert caught.value.coordinates["offset"] == 0
    assert isinstance(caught.value.__cause__, LookupError)


def test_process_values_keeps_keys() -> None:
    class Changes(sf.ContextualFixedKeyProcessor[str, str, str]):
        def process(self, record: sf.FixedKeyRecord[str, str]) -> None:
            self.context.forward(sf.FixedKeyRecord("other", record.value, record.timestamp))

    class Wrong(sf.ContextualFixedKeyProcessor[str, str, str]):
        def process(self, record: sf.FixedKeyRecord[str, str]) -> None:
            self.context.forward(Record("a", "x", 1))

    with pytest.raises(sf.ProcessingError, match="keeps keys"):
        run(through(Changes, values=True), ("a", "x"))
    with pytest.raises(sf.ProcessingError, match="FixedKeyRecord"):
        run(through(Wrong, values=True), ("a", "x"))


def test_a_missing_child_is_named() -> None:
    class Routes(sf.ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record, child="nowhere")

    with pytest.raises(sf.ProcessingError, match="no child named 'nowhere'"):
        run(through(Routes), ("a", "x"))


def test_a_store_that_is_not_connected_is_named() -> None:
    class Asks(sf.ContextualProcessor[str, str, str, str]):
        def init(self, context: Any) -> None:
            context.state_store("totals")

        def process(self, record: Record[str, str]) -> None:
            raise AssertionError

    with pytest.raises(sf.ProcessingError, match="not connected to a store 'totals'"):
        run(through(Asks), ("a", "x"))


def test_a_supplier_must_not_return_the_same_instance_twice() -> None:
    one = Shout()
    with pytest.raises(sf.TopologyError, match="same processor twice"):
        through(lambda: one)


def test_a_processor_brings_its_stores() -> None:
    class Counts(sf.ContextualProcessor[str, str, str, int]):
        @classmethod
        def stores(cls) -> list[sf.StoreBuilder[str, int]]:
            return [Stores.persistent_key_value("counts", key=str, value=int)]

        def process(self, record: Record[str, str]) -> None:
            store = self.context.state_store("counts")
            count = store.get(record.key, 0) + 1
            store[record.key] = count
            self.context.forward(record.replace(value=count))

    found = run(through(Counts, value=int), ("a", ""), ("b", ""), ("a", ""), value=int)
    assert [(r.key, r.value) for r in found] == [("a", 1), ("b", 1), ("a", 2)]


def test_metadata_times_and_names() -> None:
    seen: list[Any] = []

    class Asks(sf.ContextualProcessor[str, str, str, str]):
        def init(self, context: Any) -> None:
            super().init(context)
            seen.append(context.record_metadata)
            context.schedule("1s", PunctuationType.WALL_CLOCK_TIME, self.tick)

        def process(self, record: Record[str, str]) -> None:
            c = self.context
            seen.append((c.record_metadata, c.stream_time_ms, c.system_time_ms, c.application_id))
            c.commit()

        def tick(self, timestamp: int) -> None:
            seen.append((timestamp, self.context.record_metadata))

    with TopologyTestDriver(through(Asks), {"application.id": "me"}) as driver:
        driver.input("in", str, str).pipe("a", "x", timestamp=7)
        driver.advance(1000)
    assert seen == [None, (("in", 0, 0), 7, 0, "me"), (1000, None)]


def test_closed_at_the_end() -> None:
    closed = []

    class Closes(Shout):
        def close(self) -> None:
            closed.append(True)

    run(through(Closes), ("a", "x"))
    assert closed == [True]


@pytest.mark.parametrize(
    "schedule",
    [
        lambda c: c.schedule("0ms", PunctuationType.STREAM_TIME, print),
        lambda c: c.schedule(10, PunctuationType.STREAM_TIME, print),
        lambda c: c.schedule("1s", "wall", print),
        lambda c: c.schedule("1s", PunctuationType.STREAM_TIME, 5),
    ],
)
def test_a_wrong_schedule_is_refused(schedule: Any) -> None:
    class Schedules(Shout):
        def init(self, context: Any) -> None:
            schedule(context)

    with pytest.raises(sf.ProcessingError):
        run(through(Schedules), ("a", "x"))


def test_a_topology_by_hand() -> None:
    class Split(sf.ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record, child="short" if len(record.value or "") < 3 else "long")

    topology = (
        sf.Topology()
        .add_source("source", "in", key=str, value=str)
        .add_processor("split", Split, "source")
        .add_sink("short", "short-out", "split", key=str, value=str)
        .add_sink("long", "long-out", ["split"], key=str, value=str)
    )
    with TopologyTestDriver(topology) as driver:
        topic = driver.input("in", str, str)
        for text in ("a", "abc", "b"):
            topic.pipe("k", text)
        assert driver.output("short-out", str, str).read_values_to_list() == ["a", "b"]
        assert driver.output("long-out", str, str).read_values_to_list() == ["abc"]
    with pytest.raises(sf.TopologyError, match="no node named 'nowhere'"):
        sf.Topology().add_processor("p", Split, "nowhere")
    with pytest.raises(sf.TopologyError, match="already"):
        sf.Topology().add_source("s", "a").add_source("s", "b")
    with pytest.raises(sf.TopologyError, match="finished"):
        through(Shout).add_source("s", "a")


def test_records() -> None:
    record = Record("k", 1, 5, headers=[("a", "x")])  # type: ignore[arg-type]
    assert record.headers == (("a", b"x"),)
    assert record.replace(value=2, headers={"b": None}) == Record("k", 2, 5, (("b", None),))
    with pytest.raises(ValueError, match="negative"):
        record.replace(timestamp=-1)
    with pytest.raises(TypeError):
        sf.FixedKeyRecord("k", 1, 5).replace(key="other")  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        record.key = "other"  # type: ignore[misc]
