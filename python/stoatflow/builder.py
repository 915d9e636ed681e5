"""Builds a topology: sources, stores, and the finished `Topology`.

Takes topics and serdes, returns streams and tables. Serdes that are left out are those of the settings, or raw bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import tzinfo
from typing import TYPE_CHECKING, Any, TypeVar, overload

from stoatflow._dsl.by_keyword import by_keyword
from stoatflow._dsl.global_sources import GlobalSources
from stoatflow._dsl.scheduled import CatchUp, scheduled_node
from stoatflow._dsl.sources import Topics, how_consumed, topics_or_pattern
from stoatflow._dsl.wrapped import checked_wrapper
from stoatflow.durations import Duration, Timestamp
from stoatflow.errors import TopologyError
from stoatflow.handlers import OnError, handler
from stoatflow.late import LatePolicy, late_spec
from stoatflow.materialized import (
    Consumed,
    Materialized,
    Reset,
    TimestampLike,
    check_topic,
    reset_spec,
    store_spec,
    timestamp_spec,
)
from stoatflow.metrics import Metrics
from stoatflow.plan import PlanBuilder, nodes
from stoatflow.plan.functions import user_line
from stoatflow.plan.settings import NO_PLAN_SETTINGS, plan_settings
from stoatflow.resources import Resource
from stoatflow.serdes import BareDict, SerdeLike, resolve
from stoatflow.settings import Settings, as_settings
from stoatflow.stream import KStream
from stoatflow.table import KTable
from stoatflow.topology import Topology
from stoatflow.watermark import Watermark, watermark_spec
from stoatflow.wrapping import Wrapper

if TYPE_CHECKING:
    from stoatflow.stores import StoreBuilder

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")


class StreamsBuilder(GlobalSources):
    """Builds a topology: sources, operators, sinks, then `build()`.

    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("in", key=str, value=str).map_values(sf.value.str.upper()).to("out", key=str, value=str)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("in", str, str).pipe("a", "stoat")
    ...     print(driver.output("out", str, str).read_key_value())
    ('a', 'STOAT')
    """

    def __init__(self, *, wrapper: Wrapper | None = None) -> None:
        """Start empty. `wrapper(node, next)` returns what is called instead of each Python function."""
        self._plan = PlanBuilder()
        self._wrapper = checked_wrapper(wrapper)
        self._resources: list[Resource[Any]] = []
        self.metrics: Metrics = Metrics()
        """Metrics of your own: `builder.metrics.counter(...)`."""

    @overload
    def stream(
        self,
        topics: Topics,
        *,
        key: SerdeLike[K],
        value: BareDict,
        name: str | None = ...,
        on_error: OnError | None = ...,
        reset: Reset | None = ...,
        timestamp: TimestampLike | None = ...,
        watermark: Watermark | None = ...,
        late: LatePolicy | None = ...,
    ) -> KStream[K, dict[str, Any]]: ...
    @overload
    def stream(
        self,
        topics: Topics,
        *,
        value: BareDict,
        name: str | None = ...,
        on_error: OnError | None = ...,
        reset: Reset | None = ...,
        timestamp: TimestampLike | None = ...,
        watermark: Watermark | None = ...,
        late: LatePolicy | None = ...,
    ) -> KStream[bytes, dict[str, Any]]: ...
    @overload
    def stream(
        self,
        topics: Topics,
        *,
        key: SerdeLike[K],
        value: SerdeLike[V],
        name: str | None = ...,
        on_error: OnError | None = ...,
        reset: Reset | None = ...,
        timestamp: TimestampLike | None = ...,
        watermark: Watermark | None = ...,
        late: LatePolicy | None = ...,
    ) -> KStream[K, V]: ...
    @overload
    def stream(
        self,
        topics: Topics,
        *,
        value: SerdeLike[V],
        name: str | None = ...,
        on_error: OnError | None = ...,
        reset: Reset | None = ...,
        timestamp: TimestampLike | None = ...,
        watermark: Watermark | None = ...,
        late: LatePolicy | None = ...,
    ) -> KStream[bytes, V]: ...
    @overload
    def stream(
        self,
        topics: Topics,
        *,
        key: SerdeLike[K],
        name: str | None = ...,
        on_error: OnError | None = ...,
        reset: Reset | None = ...,
        timestamp: TimestampLike | None = ...,
        watermark: Watermark | None = ...,
        late: LatePolicy | None = ...,
    ) -> KStream[K, bytes]: ...
    @overload
    def stream(
        self,
        topics: Topics,
        *,
        name: str | None = ...,
        on_error: OnError | None = ...,
        reset: Reset | None = ...,
        timestamp: TimestampLike | None = ...,
        watermark: Watermark | None = ...,
        late: LatePolicy | None = ...,
    ) -> KStream[bytes, bytes]: ...
    @overload
    def stream(self, topics: Topics, *, consumed: Consumed[K, V]) -> KStream[K, V]: ...
    @by_keyword
    def stream(
        self,
        topics: Topics,
        *,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
        reset: Reset | None = None,
        timestamp: TimestampLike | None = None,
        watermark: Watermark | None = None,
        late: LatePolicy | None = None,
        consumed: Consumed[Any, Any] | None = None,
    ) -> KStream[Any, Any]:
        """Read one or several topics, or all topics whose full names match a compiled pattern.

        Of several topics or partitions, the record with the smallest timestamp is processed first. `watermark` says how
        late records may be.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream(["shop", "web"], key=str, value=dict).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("web", str, dict).pipe("ann", {"total": 30})
        [stream]: ann, {'total': 30}
        """
        line = user_line()
        how = how_consumed(consumed, key, value, name, reset, timestamp, on_error, "stream", line, watermark, late)
        names, pattern = topics_or_pattern(topics, line)
        if not names and pattern is None:
            raise TopologyError(f"{line} stream: no topic is given", next_step="give at least one topic")
        node = nodes.Stream(
            line=line,
            name=how.name,
            on_error=handler(how.on_error, "stream", line),
            topics=tuple(check_topic(topic, "stream", line) for topic in names) or None,
            pattern=pattern,
            key=resolve(how.key),
            value=resolve(how.value),
            reset=reset_spec(how.reset, "stream", line),
            timestamp=timestamp_spec(how.timestamp, "stream", line),
            watermark=watermark_spec(how.watermark, "stream", line),
            late=late_spec(how.late, "stream", line),
        )
        return KStream(self._plan, self._plan.add(node))

    @overload
    def table(
        self,
        topic: str,
        *,
        key: SerdeLike[K],
        value: BareDict,
        store: str | Materialized | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        reset: Reset | None = ...,
        timestamp: TimestampLike | None = ...,
        watermark: Watermark | None = ...,
        late: LatePolicy | None = ...,
    ) -> KTable[K, dict[str, Any]]: ...
    @overload
    def table(
        self,
        topic: str,
        *,
        value: BareDict,
        store: str | Materialized | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        reset: Reset | None = ...,
        timestamp: TimestampLike | None = ...,
        watermark: Watermark | None = ...,
        late: LatePolicy | None = ...,
    ) -> KTable[bytes, dict[str, Any]]: ...
    @overload
    def table(
        self,
        topic: str,
        *,
        key: SerdeLike[K],
        value: SerdeLike[V],
        store: str | Materialized | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        reset: Reset | None = ...,
        timestamp: TimestampLike | None = ...,
        watermark: Watermark | None = ...,
        late: LatePolicy | None = ...,
    ) -> KTable[K, V]: ...
    @overload
    def table(
        self,
        topic: str,
        *,
        value: SerdeLike[V],
        store: str | Materialized | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        reset: Reset | None = ...,
        timestamp: TimestampLike | None = ...,
        watermark: Watermark | None = ...,
        late: LatePolicy | None = ...,
    ) -> KTable[bytes, V]: ...
    @overload
    def table(
        self,
        topic: str,
        *,
        key: SerdeLike[K],
        store: str | Materialized | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        reset: Reset | None = ...,
        timestamp: TimestampLike | None = ...,
        watermark: Watermark | None = ...,
        late: LatePolicy | None = ...,
    ) -> KTable[K, bytes]: ...
    @overload
    def table(
        self,
        topic: str,
        *,
        store: str | Materialized | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        reset: Reset | None = ...,
        timestamp: TimestampLike | None = ...,
        watermark: Watermark | None = ...,
        late: LatePolicy | None = ...,
    ) -> KTable[bytes, bytes]: ...
    @overload
    def table(
        self, topic: str, *, consumed: Consumed[K, V], store: str | Materialized | None = ...
    ) -> KTable[K, V]: ...
    @by_keyword
    def table(
        self,
        topic: str,
        *,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        store: str | Materialized | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
        reset: Reset | None = None,
        timestamp: TimestampLike | None = None,
        watermark: Watermark | None = None,
        late: LatePolicy | None = None,
        consumed: Consumed[Any, Any] | None = None,
    ) -> KTable[Any, Any]:
        """Read a topic as a table: the last value of each key. Records without key are dropped; null deletes.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("users", str, str).pipe_all([("u1", "Ann"), ("u1", "Anna")])
        ...     print(driver.store("users").get("u1"))
        Anna
        """
        line = user_line()
        how = how_consumed(consumed, key, value, name, reset, timestamp, on_error, "table", line, watermark, late)
        node = nodes.Table(
            line=line,
            name=how.name,
            on_error=handler(how.on_error, "table", line),
            topic=check_topic(topic, "table", line),
            key=resolve(how.key),
            value=resolve(how.value),
            materialized=store_spec(store, None, None, "table", line),
            reset=reset_spec(how.reset, "table", line),
            timestamp=timestamp_spec(how.timestamp, "table", line),
            watermark=watermark_spec(how.watermark, "table", line),
            late=late_spec(how.late, "table", line),
        )
        return KTable(self._plan, self._plan.add(node))

    @overload
    def scheduled(
        self,
        name: str,
        *,
        every: Duration,
        tz: str | tzinfo = ...,
        start: Timestamp | None = ...,
        catch_up: CatchUp = ...,
        max_catch_up: int = ...,
    ) -> KStream[str, int]: ...
    @overload
    def scheduled(
        self,
        name: str,
        *,
        cron: str,
        tz: str | tzinfo = ...,
        start: Timestamp | None = ...,
        catch_up: CatchUp = ...,
        max_catch_up: int = ...,
    ) -> KStream[str, int]: ...
    def scheduled(
        self,
        name: str,
        *,
        every: Duration | None = None,
        cron: str | None = None,
        tz: str | tzinfo = "UTC",
        start: Timestamp | None = None,
        catch_up: CatchUp = "latest",
        max_catch_up: int = 1000,
    ) -> KStream[str, int]:
        """Create records by the clock: the key is `name`, value and timestamp are the time of the tick.

        Ticks of `every` are aligned to `start` (1970 if left out); whole days keep the time of day in `tz`. `cron` has
        five fields, or six with seconds in front. Of the ticks that were missed while the application was down,
        `catch_up` makes the "latest", "all" (the newest `max_catch_up`), or none ("skip").

        >>> builder = sf.StreamsBuilder()
        >>> builder.scheduled("beat", every="10s").print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.advance("20s")
        [beat]: beat, 10000
        [beat]: beat, 20000
        """
        node = scheduled_node(name, every, cron, tz, start, catch_up, max_catch_up, user_line())
        return KStream(self._plan, self._plan.add(node))

    def add_state_store(self, store: StoreBuilder[Any, Any]) -> StreamsBuilder:
        """Add a store for processors; a processor that uses it names it in `stores=`.

        >>> class Total(sf.ContextualProcessor[str, int, str, int]):
        ...     def process(self, record):
        ...         self.context.state_store("totals").merge(record.key, record.value, lambda one, two: one + two)
        >>> builder = sf.StreamsBuilder().add_state_store(sf.Stores.key_value("totals", key=str, value=int))
        >>> builder.stream("n", key=str, value=int).process(Total, stores=["totals"]).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 1), ("a", 2)])
        ...     print(driver.store("totals").get("a"))
        3
        """
        from stoatflow._dsl.declared_stores import add_store

        add_store(self._plan, store, user_line())
        return self

    def build(self, config: Settings | Mapping[str, object] | None = None, **settings: object) -> Topology:
        """Check the topology and return it; raise `TopologyError` if something is wrong.

        Of `config` only the default serdes (`default.key.serde`, `default.value.serde` and the entries of lists) and
        `default.timestamp.extractor` are used, where no serde or timestamp extractor is given.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("in", key=str, value=str).to("out")
        >>> print(builder.build().describe().strip())
        Topologies:
           Sub-topology: 0
            Source: KSTREAM-SOURCE-0000000000 (topics: [in])
              --> KSTREAM-SINK-0000000001
            Sink: KSTREAM-SINK-0000000001 (topic: out)
              <-- KSTREAM-SOURCE-0000000000
        """
        given = config is not None or settings
        defaults = plan_settings(as_settings(config, settings)) if given else NO_PLAN_SETTINGS
        return Topology(
            self._plan.snapshot(),
            wrapper=self._wrapper,
            resources=self._resources,
            defaults=defaults,
            metrics=self.metrics,
        )

    @overload
    def resource(self, make: Callable[[], AbstractAsyncContextManager[R]]) -> Resource[R]: ...
    @overload
    def resource(self, make: Callable[[], AbstractContextManager[R]]) -> Resource[R]: ...
    @overload
    def resource(self, make: Callable[[], AsyncIterator[R]]) -> Resource[R]: ...
    @overload
    def resource(self, make: Callable[[], Iterator[R]]) -> Resource[R]: ...
    @overload
    def resource(self, make: Callable[[], Awaitable[R]]) -> Resource[R]: ...
    def resource(self, make: Callable[[], Any]) -> Resource[Any]:
        """Declare a resource that functions share while an application runs; also a decorator.

        `make()` returns a context manager, a generator that yields once (both plain or async), or an awaitable. It is
        opened before the first record and closed after the last. Functions use `client.value`.

        >>> import contextlib
        >>> builder = sf.StreamsBuilder()
        >>> rates = builder.resource(lambda: contextlib.nullcontext({"EUR": 2}))
        >>> prices = builder.stream("prices", key=str, value=int)
        >>> prices.map_values(lambda price: price * rates.value["EUR"]).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("prices", str, int).pipe("tea", 4)
        [map_values]: tea, 8
        """
        line = user_line()
        if not callable(make):
            raise TopologyError(
                f"{line} resource needs a function that makes one, not {type(make).__name__}",
                next_step="pass the class or function itself: builder.resource(make_client)",
            )
        made: Resource[Any] = Resource(make, line)
        self._resources.append(made)
        return made
