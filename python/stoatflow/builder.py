"""Where a topology begins: sources, and the finished `Topology`.

Takes topics and serdes, gives streams and tables. Serdes that are left out are
those of the settings, or mean bytes as they are.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import tzinfo
from typing import TYPE_CHECKING, Any, TypeVar, overload

from stoatflow._dsl.scheduled import CatchUp, scheduled_node
from stoatflow._dsl.wrapped import checked_wrapper
from stoatflow.durations import Duration, Timestamp
from stoatflow.errors import TopologyError
from stoatflow.global_table import GlobalKTable
from stoatflow.handlers import OnError, handler
from stoatflow.late import LatePolicy, late_spec, refuse_late
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
from stoatflow.plan import PlanBuilder, nodes
from stoatflow.plan.defaults import NO_DEFAULTS, UNSET_KEY, UNSET_VALUE, source_defaults
from stoatflow.plan.functions import given, user_line
from stoatflow.resources import Resource
from stoatflow.serdes import SerdeLike, resolve
from stoatflow.settings import Settings, as_settings
from stoatflow.stream import KStream
from stoatflow.table import KTable
from stoatflow.topology import Topology
from stoatflow.watermark import Watermark, watermark_spec
from stoatflow.wrapping import Wrapper

if TYPE_CHECKING:
    from stoatflow.processor import ProcessorSupplier
    from stoatflow.stores import StoreBuilder

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")
Topics = str | Sequence[str] | re.Pattern[str]


class StreamsBuilder:
    """Builds a topology: sources, operators, sinks, then `build()`."""

    def __init__(self, *, wrapper: Wrapper | None = None) -> None:
        """Start with nothing. `wrapper(node, next)` gives what is called instead of each Python function."""
        self._plan = PlanBuilder()
        self._wrapper = checked_wrapper(wrapper)
        self._resources: list[Resource[Any]] = []

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
        """Read one topic or several, or all whose whole names match a compiled pattern.

        Between several, the smallest timestamp goes first. `watermark` says how late its records may be.
        """
        line = user_line()
        how = _consumed(consumed, key, value, name, reset, timestamp, on_error, "stream", line, watermark, late)
        names, pattern = _topics(topics, line)
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
        """Read a topic as a table: the last value of each key. Null keys are dropped, null values delete."""
        line = user_line()
        how = _consumed(consumed, key, value, name, reset, timestamp, on_error, "table", line, watermark, late)
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

    def global_table(
        self,
        topic: str,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        store: str | Materialized | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
        timestamp: TimestampLike | None = None,
        consumed: Consumed[K, V] | None = None,
    ) -> GlobalKTable[K, V]:
        """Read a topic as a table that is complete before anything else is read; join it by any key."""
        line = user_line()
        how = _consumed(consumed, key, value, name, None, timestamp, on_error, "global_table", line)
        refuse_late(how.late, "global_table", line)
        if how.reset is not None:
            raise TopologyError(
                f"{line} global_table: it is always read from the beginning", next_step="leave reset= out"
            )
        if how.watermark is not None:
            raise TopologyError(
                f"{line} global_table: its records are no part of event time", next_step="leave watermark= out"
            )
        node = nodes.GlobalTable(
            line=line,
            name=how.name,
            on_error=handler(how.on_error, "global_table", line),
            topic=check_topic(topic, "global_table", line),
            key=resolve(how.key),
            value=resolve(how.value),
            materialized=store_spec(store, None, None, "global_table", line),
            timestamp=timestamp_spec(how.timestamp, "global_table", line),
        )
        return GlobalKTable(self._plan, self._plan.add(node))

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
        """Make a record by the clock: its key is `name`, its value and its timestamp the time of the tick.

        `every` lies on a grid from `start` (1970 if left out); whole days keep the time of the day in `tz`. `cron`
        has five fields, or six with seconds in front. Of ticks that were missed while nothing ran, `catch_up` makes
        the "latest", "all" (the newest `max_catch_up`), or none ("skip").
        """
        node = scheduled_node(name, every, cron, tz, start, catch_up, max_catch_up, user_line())
        return KStream(self._plan, self._plan.add(node))

    def add_state_store(self, store: StoreBuilder[Any, Any]) -> StreamsBuilder:
        """Add a store for processors; those that use it name it in `stores=`."""
        from stoatflow.stores import add_store

        add_store(self._plan, store, user_line())
        return self

    def add_global_store(
        self,
        store: StoreBuilder[Any, Any],
        topic: str,
        supplier: ProcessorSupplier[Any, Any, Any, Any],
        *,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
        timestamp: TimestampLike | None = None,
        consumed: Consumed[Any, Any] | None = None,
    ) -> StreamsBuilder:
        """Keep a store with a processor of your own from a topic, complete before anything else is read."""
        from stoatflow.stores import add_global_store

        line = user_line()
        how = _consumed(consumed, key, value, name, None, timestamp, on_error, "add_global_store", line)
        refuse_late(how.late, "add_global_store", line)
        add_global_store(self._plan, store, check_topic(topic, "add_global_store", line), supplier, how, line)
        return self

    def build(self, config: Settings | Mapping[str, object] | None = None, **settings: object) -> Topology:
        """Check everything and give the topology; raise `TopologyError` for what is wrong.

        Of `config` only `default.key.serde`, `default.value.serde` and `default.timestamp.extractor` matter, for what
        says no serde and no time: they are checked with the rest.
        """
        given = config is not None or settings
        defaults = source_defaults(as_settings(config, settings)) if given else NO_DEFAULTS
        return Topology(self._plan.snapshot(), wrapper=self._wrapper, resources=self._resources, defaults=defaults)

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
        """Declare what functions share for as long as an application runs; also a decorator.

        `make()` gives a context manager, a generator that yields once (both plain or async), or something to await.
        It is opened before the first record and closed after the last. Functions say `client.value`.
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


def _topics(topics: Topics, line: str) -> tuple[tuple[str, ...], str | None]:
    if isinstance(topics, str):
        return (topics,), None
    if isinstance(topics, re.Pattern):
        return (), _pattern(topics, line)
    if isinstance(topics, bytes | Mapping) or not isinstance(topics, Iterable):
        raise TopologyError(
            f"{line} stream needs topics, not {topics!r}",
            next_step='name one ("orders"), several (["orders", "returns"]), or pass re.compile("orders-.*")',
        )
    return tuple(topics), None


def _pattern(pattern: re.Pattern[str], line: str) -> str:
    if not isinstance(pattern.pattern, str):
        raise TopologyError(
            f"{line} stream: the pattern {pattern.pattern!r} is one of bytes, but names of topics are text",
            next_step=f"write re.compile({pattern.pattern.decode('ascii', 'replace')!r})",
        )
    # Flags that the pattern holds itself the engine reads there.
    if pattern.flags & ~re.compile(pattern.pattern).flags:
        raise TopologyError(
            f"{line} stream: the pattern {pattern.pattern!r} has flags, which the engine does not know",
            next_step="write them into the pattern, such as (?i)orders-.*",
        )
    return pattern.pattern


def _consumed(
    consumed: Consumed[Any, Any] | None,
    key: SerdeLike[Any] | None,
    value: SerdeLike[Any] | None,
    name: str | None,
    reset: Reset | None,
    timestamp: TimestampLike | None,
    on_error: OnError | None,
    method: str,
    line: str,
    watermark: Watermark | None = None,
    late: LatePolicy | None = None,
) -> Consumed[Any, Any]:
    how = given(consumed, Consumed, None, f"{method}(consumed=)", line)
    if how is not None:
        if (key, value, name, reset, timestamp, on_error, watermark, late) != (None,) * 8:
            raise TopologyError(
                f"{line} {method}: key=, value=, name=, reset=, timestamp=, on_error=, watermark= or late= is given "
                "beside consumed=",
                next_step="give them either to Consumed or to the method",
            )
        key, value, name, reset, timestamp = how.key, how.value, how.name, how.reset, how.timestamp
        on_error, watermark, late = how.on_error, how.watermark, how.late
    return Consumed(
        UNSET_KEY if key is None else key,
        UNSET_VALUE if value is None else value,
        name=name,
        reset=reset,
        timestamp=timestamp,
        on_error=on_error,
        watermark=watermark,
        late=late,
    )
