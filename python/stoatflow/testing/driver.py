"""The test driver: the engine in this process, one record at a time.

Takes a topology, owns one native driver. Reads no environment variables, so that a test has the same result everywhere.
Nothing is simulated: outputs and stores are those of the engine.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, TypeVar, overload

from stoatflow._dsl.java_names import JavaNames
from stoatflow._runtime import bridge
from stoatflow.durations import Duration, Timestamp, duration_ms, timestamp_ms
from stoatflow.errors import ConfigError, MissingTopicError, TopologyError
from stoatflow.handlers import OnError, with_handlers
from stoatflow.offload import Parked
from stoatflow.serdes import BareDict, Serde, SerdeLike, Serdes, resolve
from stoatflow.serdes.planned import planned
from stoatflow.serdes.registered import RegisteredSerde
from stoatflow.settings import Settings
from stoatflow.testing.record import Header
from stoatflow.testing.store import TestStore, TestTimerStore, TestVersionedStore, TestWindowStore
from stoatflow.testing.topic_names import TopicNames
from stoatflow.testing.topics import RawRecord, TestInputTopic, TestOutputTopic
from stoatflow.topology import Topology, built

K = TypeVar("K")
V = TypeVar("V")

_DEFAULTS = {"application.id": "test", "bootstrap.servers": "embedded:"}


class TopologyTestDriver(JavaNames):
    """Runs a topology record by record: `with TopologyTestDriver(topology) as driver: ...`.

    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("orders", key=str, value=int).filter(sf.value > 25).to("large")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("orders", str, int).pipe_all([("ann", 30), ("bob", 20)])
    ...     print(driver.output("large", str, int).read_key_values_to_list())
    [('ann', 30)]
    """

    __test__ = False  # not a test class, despite its name

    def __init__(
        self,
        topology: Topology,
        config: Settings | Mapping[str, object] | None = None,
        *,
        lanes: int = 1,
        start: Timestamp | None = None,
        on_processing_error: OnError | None = None,
        on_deserialization_error: OnError | None = None,
        on_production_error: OnError | None = None,
    ) -> None:
        """Start; the clock begins at `start` (1970 if left out) and moves only with `advance`.

        Handlers are those of `StoatFlow`; a `Retry` does not wait here.
        """
        settings = config if isinstance(config, Settings) else Settings(config, environ={})
        settings = settings.with_defaults(_DEFAULTS)
        settings.check()
        topology = built(topology).for_settings(settings)
        plan = with_handlers(topology.plan, on_processing_error, on_deserialization_error, on_production_error)
        self._topology = topology
        self._topics = TopicNames(plan.physical_json, settings)
        self._now = 0 if start is None else timestamp_ms(start)
        self._lanes = _lanes(lanes)
        self._outputs: dict[str, deque[RawRecord]] = {}
        self._event_loop = topology.event_loop
        if self._event_loop is not None:
            self._event_loop.acquire()
        try:
            self._native = bridge.Driver(plan, settings.pairs(), self._lanes, self._now)
        except BaseException as error:
            self._release_loop()
            if isinstance(error, ConfigError):
                raise settings.explain(error) from None
            raise

    @overload
    def input(
        self,
        topic: str,
        key: SerdeLike[K],
        value: BareDict,
        *,
        start: Timestamp | None = ...,
        advance: Duration | None = ...,
    ) -> TestInputTopic[K, dict[str, Any]]: ...
    @overload
    def input(
        self, topic: str, *, value: BareDict, start: Timestamp | None = ..., advance: Duration | None = ...
    ) -> TestInputTopic[bytes, dict[str, Any]]: ...
    @overload
    def input(
        self,
        topic: str,
        key: SerdeLike[K],
        value: SerdeLike[V],
        *,
        start: Timestamp | None = ...,
        advance: Duration | None = ...,
    ) -> TestInputTopic[K, V]: ...
    @overload
    def input(
        self, topic: str, *, value: SerdeLike[V], start: Timestamp | None = ..., advance: Duration | None = ...
    ) -> TestInputTopic[bytes, V]: ...
    @overload
    def input(
        self, topic: str, *, start: Timestamp | None = ..., advance: Duration | None = ...
    ) -> TestInputTopic[bytes, bytes]: ...
    def input(
        self,
        topic: str,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        *,
        start: Timestamp | None = None,
        advance: Duration | None = None,
    ) -> TestInputTopic[Any, Any]:
        """Return a topic to write to. Timestamps begin at `start` and grow by `advance` per record.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("orders", key=str, value=int).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe("ann", 30)
        [stream]: ann, 30
        """

        def pipe(key_data: bytes | None, value_data: bytes | None, timestamp: int, headers: list[Header]) -> None:
            try:
                self._native.pipe(topic, 0, key_data, value_data, timestamp, headers)
            except MissingTopicError as error:
                raise self._topics.missing_input(topic, error) from None

        key, value = _of_topic(topic, key, value)
        return TestInputTopic(pipe, lambda: self._now, key, value, start, advance)

    @overload
    def output(self, topic: str, key: SerdeLike[K], value: BareDict) -> TestOutputTopic[K, dict[str, Any]]: ...
    @overload
    def output(self, topic: str, *, value: BareDict) -> TestOutputTopic[bytes, dict[str, Any]]: ...
    @overload
    def output(self, topic: str, key: SerdeLike[K], value: SerdeLike[V]) -> TestOutputTopic[K, V]: ...
    @overload
    def output(self, topic: str, *, value: SerdeLike[V]) -> TestOutputTopic[bytes, V]: ...
    @overload
    def output(self, topic: str) -> TestOutputTopic[bytes, bytes]: ...
    def output(
        self, topic: str, key: SerdeLike[Any] | None = None, value: SerdeLike[Any] | None = None
    ) -> TestOutputTopic[Any, Any]:
        """Return a topic to read from. Two objects of one topic share its records, as in Kafka Streams.

        A topic that the topology doesn't write to is empty; a name similar to that of one that it does write to is
        taken for a typo (`TopologyError`). So is a topology without outputs in which a `.to(...)` was forgotten.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("orders", key=str, value=int).to("copy")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe("ann", 30)
        ...     print(driver.output("copy", str, int).read_key_value())
        ('ann', 30)
        """
        self._topics.check_output(topic)

        def fill() -> deque[RawRecord]:
            waiting = self._outputs.setdefault(topic, deque())
            waiting.extend(self._native.drain(topic))
            return waiting

        return TestOutputTopic(topic, fill, _serde(key), _serde(value))

    def store(self, name: str) -> Any:
        """Return a reader of a store's committed state.

        It is a `TestStore`; for windows and sessions a `TestWindowStore`, for versions a `TestVersionedStore`, for
        timers a `TestTimerStore`.

        >>> builder = sf.StreamsBuilder()
        >>> orders = builder.table("orders", key=str, value=int, store="orders")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe("ann", 30)
        ...     print(driver.store("orders").get("ann"))
        30
        """
        stores = {store["name"]: store for store in json.loads(self._topology.plan.physical_json)["stores"]}
        if name not in stores:
            known = ", ".join(sorted(stores)) or "none"
            raise TopologyError(f"no store is named '{name}'", next_step=f"use one of the topology's stores: {known}")

        def scan(from_key: bytes | None, to_key: bytes | None, limit: int | None) -> list[tuple[bytes, bytes, int]]:
            return self._native.store_scan(name, from_key, to_key, limit)

        def rows() -> list[tuple[bytes, tuple[int, int] | None, bytes, int]]:
            return self._native.store_rows(name)

        def version(key: bytes, as_of: int | None) -> tuple[bytes, int] | None:
            return self._native.version(name, key, as_of)

        store = stores[name]
        key, value = self.serde(store["key"]), self.serde(store["value"])
        kind = store["kind"]["type"]
        if kind == "timers":
            return TestTimerStore(name, rows, key)
        if kind == "versioned":
            return TestVersionedStore(name, scan, rows, version, key, value)
        if kind in ("window", "session"):
            return TestWindowStore(name, scan, rows, key, value)
        headers = partial(self._native.store_headers, name) if store.get("headers") else None
        return TestStore(name, scan, rows, key, value, headers)

    def to_arrow(self, store: str, *, schema: object = None) -> Any:
        """Return the rows of a store, as of the last commit, as a `pyarrow.Table`.

        The columns are those of `map_batches`, the key first. `schema` names the columns of the values; without it they
        are derived from the values. Like `StoatFlow.to_arrow`.

        >>> builder = sf.StreamsBuilder()
        >>> orders = builder.table("orders", key=str, value=int, store="orders")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe_all([("ann", 30), ("bob", 20)])
        ...     print(driver.to_arrow("orders").select(["_key", "value"]).to_pydict())
        {'_key': ['ann', 'bob'], 'value': [30, 20]}
        """
        from stoatflow._runtime.store_batches import table  # only this method needs it

        return table(self._native, store, schema)

    def arrow_batches(self, store: str, *, schema: object = None, max_rows: int = 65_536) -> Any:
        """Return the rows of a store, as of the last commit, as a `pyarrow.RecordBatchReader`: a batch at a time.

        All batches are of one commit, however long reading takes. A crash or a restart ends the reader.

        >>> builder = sf.StreamsBuilder()
        >>> orders = builder.table("orders", key=str, value=int, store="orders")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe_all([("ann", 30), ("bob", 20)])
        ...     for batch in driver.arrow_batches("orders", max_rows=1):
        ...         print(batch["value"].to_pylist())
        [30]
        [20]
        """
        from stoatflow._runtime.store_batches import reader

        return reader(self._native, store, schema, max_rows)

    def parked(self, offload: str) -> list[Parked]:
        """Return the records that the `offload` of this name has parked, as of the last commit, by key bytes.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("in", key=str, value=str).offload("ask", "answers", response_value=str, name="score").print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("in", str, str).pipe("a", "well done")
        ...     print([parked.value for parked in driver.parked("score")])
        ['well done']
        """
        return [Parked(*entry) for entry in self._native.parked(offload)]

    def metrics(self) -> dict[str, Any]:
        """Return all metrics, like `StoatFlow.metrics`, including dropped records by node and reason.

        A restart resets them.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("orders", key=str, value=int).to("copy")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe("ann", 30)
        ...     print(driver.metrics()["records_in"])
        1
        """
        metrics: dict[str, Any] = json.loads(self._native.metrics_json())
        return metrics

    @property
    def produced_topics(self) -> list[str]:
        """Topics that the topology has written to.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("orders", key=str, value=int).to("copy")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe("ann", 30)
        ...     print(driver.produced_topics)
        ['copy']
        """
        return self._native.produced_topics()

    @property
    def now(self) -> int:
        """The virtual clock, in milliseconds.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("orders", key=str, value=int).print()
        >>> with TopologyTestDriver(builder.build(), start=1000) as driver:
        ...     driver.advance("5s")
        ...     print(driver.now)
        6000
        """
        return self._now

    def advance(self, by: int | Duration) -> None:
        """Advance the virtual clock (by milliseconds, `timedelta` or text) and run what is due.

        Between `crash` and `restart` time passes while the engine is down.

        >>> class Clock(sf.ContextualProcessor[str, int, str, int]):
        ...     def init(self, context):
        ...         context.schedule("1m", sf.PunctuationType.WALL_CLOCK_TIME, print)
        ...     def process(self, record): ...
        >>> builder = sf.StreamsBuilder()
        >>> _ = builder.stream("orders", key=str, value=int).process(Clock)
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.advance("1m")
        60000
        """
        ms = by if isinstance(by, int) and not isinstance(by, bool) else duration_ms(by)  # type: ignore[arg-type]
        if ms < 0:
            raise ValueError(f"the clock can't go back by {-ms} ms")
        self._native.advance_wall_clock(ms)
        self._now += ms

    def advance_watermark(self, to: Timestamp) -> None:
        """Raise the application's watermark to at least this time, and commit. It never falls.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("orders", key=str, value=int).print()
        >>> with TopologyTestDriver(builder.build(), {"time.semantics": "watermark"}) as driver:
        ...     driver.advance_watermark(5000)
        ...     print(driver.watermark)
        5000
        """
        self._native.advance_watermark(timestamp_ms(to))

    @property
    def watermark(self) -> int:
        """The application's watermark as of the last commit; -1 if there is none yet.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("orders", key=str, watermark=sf.Watermark.bounded("2s")).to("copy")
        >>> with TopologyTestDriver(builder.build(), {"time.semantics": "watermark"}) as driver:
        ...     driver.input("orders", str, str).pipe("ann", "tea", timestamp=10_000)
        ...     print(driver.watermark)
        8000
        """
        return self._native.watermark()

    @contextmanager
    def epoch(self) -> Iterator[None]:
        """Process all records piped inside in one epoch: `with driver.epoch(): ...`.

        They keep their order; neighbours in one topic are processed as one batch. One commit follows at the
        end, and outputs can be read only then. `crash()` inside loses the whole epoch; after `restart()` its
        records are read again.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("orders", key=str, value=int).to("copy")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     copy = driver.output("copy", str, int)
        ...     with driver.epoch():
        ...         driver.input("orders", str, int).pipe_all([("ann", 30), ("bob", 20)])
        ...         print(copy.read_all())
        ...     print(copy.read_values_to_list())
        []
        [30, 20]
        """
        self._native.hold()
        yield
        self._native.release()

    def barrier(self) -> None:
        """Commit now.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("orders", key=str, value=int).to("copy")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     before = driver.metrics()["commits"]
        ...     driver.barrier()
        ...     print(driver.metrics()["commits"] - before)
        1
        """
        self._native.barrier()

    def crash(self) -> None:
        """End as if killed by SIGKILL: only what is committed remains. Continue with `restart`.

        >>> builder = sf.StreamsBuilder()
        >>> orders = builder.table("orders", key=str, value=int, store="orders")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe("ann", 30)
        ...     driver.crash()
        ...     driver.restart()
        ...     print(driver.store("orders").get("ann"))
        30
        """
        self._native.crash()

    def restart(self, *, lanes: int | None = None) -> None:
        """Recover from what is committed, optionally with another number of lanes.

        >>> builder = sf.StreamsBuilder()
        >>> orders = builder.table("orders", key=str, value=int, store="orders")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe("ann", 30)
        ...     driver.crash()
        ...     driver.restart(lanes=4)
        ...     print(driver.store("orders").get("ann"))
        30
        """
        if lanes is not None:
            self._lanes = _lanes(lanes)
        self._native.restart(self._lanes)

    def close(self) -> None:
        """Stop and remove all files; may be called more than once.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("orders", key=str, value=int).print()
        >>> driver = TopologyTestDriver(builder.build())
        >>> driver.input("orders", str, int).pipe("ann", 30)
        [stream]: ann, 30
        >>> driver.close()
        """
        self._native.close()
        self._release_loop()

    def _release_loop(self) -> None:
        loop, self._event_loop = self._event_loop, None
        if loop is not None:
            loop.release()

    def __enter__(self) -> TopologyTestDriver:
        """Return the driver, which runs already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    create_input_topic = input
    create_output_topic = output
    advance_wall_clock_time = advance
    get_state_store = store
    get_key_value_store = store
    produced_topic_names = produced_topics

    def serde(self, spec: Any) -> Serde[Any]:
        """Return the serde that a plan names."""
        return planned(spec, self._topology.custom_serde)


def _of_topic(topic: str, key: SerdeLike[Any] | None, value: SerdeLike[Any] | None) -> tuple[Serde[Any], Serde[Any]]:
    """Return serdes that write to this topic: for schemas with ids, its name decides their subjects."""
    keys, values = _serde(key), _serde(value)
    return (
        keys.for_topic(topic, "key") if isinstance(keys, RegisteredSerde) else keys,
        values.for_topic(topic) if isinstance(values, RegisteredSerde) else values,
    )


def _serde(serde: SerdeLike[Any] | None) -> Serde[Any]:
    return Serdes.bytes() if serde is None else resolve(serde)


def _lanes(lanes: object) -> int:
    if isinstance(lanes, bool) or not isinstance(lanes, int) or lanes < 1:
        raise ConfigError(f"lanes must be a whole number from 1 on, not {lanes!r}", next_step="write lanes=4")
    return lanes
