"""Value objects that say how a source, a sink, a group or a table is read, written or stored.

Takes serdes and names; frozen data. The methods that accept them also accept their fields as keywords, so most programs
never need them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypeVar

from stoatflow._dsl.java_names import JavaNames
from stoatflow._dsl.row_ttl import expiry_spec
from stoatflow.durations import Duration
from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression
from stoatflow.handlers import OnError
from stoatflow.indexes import Index, index_specs
from stoatflow.plan.functions import callable_only, given
from stoatflow.plan.node_base import StoreSpec, TimestampFunction, Timestamps
from stoatflow.rocksdb_config import RocksDBConfig, rocksdb_spec
from stoatflow.serdes import SerdeLike, resolve
from stoatflow.windows import span_ms

if TYPE_CHECKING:
    from stoatflow.consumed_record import ConsumedRecord
    from stoatflow.late import LatePolicy
    from stoatflow.timers import TimeDomain
    from stoatflow.watermark import Watermark

K = TypeVar("K")
V = TypeVar("V")

Reset: TypeAlias = "Literal['earliest', 'latest', 'none'] | OffsetReset"
"""Where a source starts without a committed position."""


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """Where a source starts without a committed position: `OffsetReset.by_duration("1h")`.

    >>> sf.OffsetReset.by_duration("1h")
    OffsetReset(where='by_duration', duration_ms=3600000)
    """

    where: Literal["earliest", "latest", "none", "by_duration"]
    duration_ms: int | None = None

    @classmethod
    def earliest(cls) -> OffsetReset:
        """Start at the beginning (the default).

        >>> sf.OffsetReset.earliest().where
        'earliest'
        """
        return cls("earliest")

    @classmethod
    def latest(cls) -> OffsetReset:
        """Start at the end: read only records written from now on.

        >>> builder = sf.StreamsBuilder()
        >>> orders = builder.stream("orders", reset=sf.OffsetReset.latest())
        >>> sf.OffsetReset.latest().where
        'latest'
        """
        return cls("latest")

    @classmethod
    def none(cls) -> OffsetReset:
        """Raise an error if there is no committed position.

        >>> sf.OffsetReset.none().where
        'none'
        """
        return cls("none")

    @classmethod
    def by_duration(cls, back: Duration) -> OffsetReset:
        """Start at the first record that is not older than this.

        >>> sf.OffsetReset.by_duration("1h").duration_ms
        3600000
        """
        return cls("by_duration", span_ms(back, "OffsetReset.by_duration(back)"))


class TimestampExtractors:
    """Built-in timestamp extractors, for `timestamp=` of a source.

    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("in", value=str, timestamp=sf.TimestampExtractors.WALLCLOCK).to("out")
    >>> with TopologyTestDriver(builder.build(), start=5_000) as driver:
    ...     driver.input("in", value=str).pipe("stoat", timestamp=1)
    ...     print(driver.output("out", value=str).read().timestamp)
    5000
    """

    FAIL_ON_INVALID: Final = "fail_on_invalid"
    """The record's timestamp; a negative one is an error (the default)."""
    LOG_AND_SKIP: Final = "log_and_skip"
    """The record's timestamp; a record with a negative one is dropped and counted."""
    USE_PARTITION_TIME: Final = "use_partition_time"
    """The record's timestamp; a negative one is replaced by the highest of its partition so far."""
    WALLCLOCK: Final = "wallclock"
    """The wall-clock time when the record was read."""


TimestampLike: TypeAlias = "Callable[[ConsumedRecord, int], int] | Expression | str"
"""A function `(record, partition_time)` or an expression that returns milliseconds, or one of `TimestampExtractors`."""


@dataclass(frozen=True)
class Consumed(JavaNames, Generic[K, V]):
    """How a source topic is read.

    >>> how = sf.Consumed(str, dict, name="orders", reset="latest")
    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("orders", consumed=how).print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("orders", str, dict).pipe("ann", {"total": 30})
    [orders]: ann, {'total': 30}
    """

    key: SerdeLike[K]
    value: SerdeLike[V]
    name: str | None = None
    reset: Reset | None = None
    timestamp: TimestampLike | None = None
    on_error: OnError | None = None
    watermark: Watermark | None = None
    late: LatePolicy | None = None


@dataclass(frozen=True, kw_only=True)
class Produced(JavaNames, Generic[K, V]):
    """How a sink topic is written; the default serdes are those that the records were read with.

    >>> builder = sf.StreamsBuilder()
    >>> stream = builder.stream("in", key=str, value=str)
    >>> stream.to("out", produced=sf.Produced(key=str, value=str, name="sink"))
    >>> "Sink: sink" in builder.build().describe()
    True
    """

    key: SerdeLike[K] | None = None
    value: SerdeLike[V] | None = None
    name: str | None = None
    partitioner: Callable[[str, K, V, int], Iterable[int] | None] | None = None


@dataclass(frozen=True, kw_only=True)
class Grouped(JavaNames, Generic[K, V]):
    """How grouped records are serialized where necessary.

    >>> builder = sf.StreamsBuilder()
    >>> stream = builder.stream("in", key=str, value=int)
    >>> counts = stream.group_by(sf.value, grouped=sf.Grouped(key=int, value=int, name="by-n")).count(store="n")
    >>> "by-n" in builder.build().describe()
    True
    """

    key: SerdeLike[K] | None = None
    value: SerdeLike[V] | None = None
    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Repartitioned(JavaNames, Generic[K, V]):
    """How a stream is repartitioned: its records move to the lanes of their keys, in memory, without a topic.

    >>> builder = sf.StreamsBuilder()
    >>> stream = builder.stream("in", key=str, value=int).select_key(sf.value)
    >>> stream.repartition(sf.Repartitioned(key=int, value=int, name="by-n")).to("out")
    >>> "by-n" in builder.build().describe()
    True
    """

    key: SerdeLike[K] | None = None
    value: SerdeLike[V] | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Materialized(JavaNames):
    """How a table is stored: `Materialized("orders", value=dict, logging=False)`.

    `logging` may hold settings of the changelog topic; `history` makes a versioned table that keeps versions this far
    back; `retention` is how long windows and sessions are kept; `indexes` are secondary indexes for `find` of the
    store; `rocksdb` configures RocksDB.

    With `ttl` (a duration, or an expression that returns milliseconds for a row, null for never) a row is deleted that
    long after its timestamp: by stream time, or with `ttl_time="processing"` by the wall clock. `ttl_forward=True`
    sends a tombstone downstream.

    >>> builder = sf.StreamsBuilder()
    >>> kept = sf.Materialized("orders", logging={"retention.ms": "86400000"}, caching=False)
    >>> orders = builder.table("orders", key=str, value=dict, store=kept)
    >>> orders.queryable_store_name
    'orders'

    >>> carts = builder.table("carts", key=str, value=int, store=sf.Materialized("carts", ttl="30m"))
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("carts", key=str, value=int).pipe("ann", 3, timestamp=0)
    ...     driver.input("carts", key=str, value=int).pipe("bob", 5, timestamp=30 * 60_000)
    ...     dict(driver.store("carts").all())
    {'bob': 5}
    """

    store: str | None = None
    key: SerdeLike[Any] | None = None
    value: SerdeLike[Any] | None = None
    logging: bool | Mapping[str, object] = True
    caching: bool = True
    type: Literal["rocksdb", "memory"] | None = None
    retention: Duration | None = None
    history: Duration | None = None
    indexes: Iterable[Index] = ()
    ttl: Duration | Expression | None = None
    ttl_time: TimeDomain | None = None
    ttl_forward: bool = False
    rocksdb: RocksDBConfig | None = None


def optional_serde(serde: SerdeLike[Any] | None) -> Any:
    """Resolve an optional serde."""
    return None if serde is None else resolve(serde)


def store_spec(
    store: str | Materialized | None,
    key: SerdeLike[Any] | None,
    value: SerdeLike[Any] | None,
    method: str,
    line: str,
) -> StoreSpec | None:
    """Return `store=`, `key=` and `value=` as plan data; raise `TopologyError` if they contradict each other."""
    how = store if isinstance(store, Materialized) else Materialized(store)
    if how is store and (key is not None or value is not None):
        raise TopologyError(
            f"{line} {method}: key= and value= are given beside a Materialized",
            next_step="give the serdes either to Materialized or to the method",
        )
    name = how.store
    if name is not None and (not isinstance(name, str) or not name):
        raise TopologyError(
            f"{line} {method}: store= must be a name or a Materialized, not {name!r}",
            next_step='write store="totals"',
        )
    if how.type not in (None, "rocksdb", "memory"):
        raise TopologyError(
            f"{line} {method}: Materialized(type={how.type!r}) is not known",
            next_step='write type="rocksdb" or type="memory"',
        )
    if not isinstance(how.logging, bool | Mapping):
        raise TopologyError(
            f"{line} {method}: Materialized(logging=) must be True, False or a mapping, not {how.logging!r}",
            next_step="write logging=False or logging={setting: value}",
        )
    if store is None and key is None and value is None:
        return None
    key, value = how.key if key is None else key, how.value if value is None else value
    topic = how.logging if isinstance(how.logging, Mapping) else {}
    return StoreSpec(
        name,
        optional_serde(key),
        optional_serde(value),
        logged=how.logging is not False,
        cached=how.caching,
        retention_ms=None if how.retention is None else span_ms(how.retention, "Materialized(retention=)", least=1),
        history_ms=None if how.history is None else span_ms(how.history, "Materialized(history=)"),
        expiry=expiry_spec((how.ttl, how.ttl_time, how.ttl_forward), f"{method}: Materialized", line),
        in_memory=how.type == "memory",
        topic={setting: _setting(content) for setting, content in topic.items()},
        indexes=index_specs(how.indexes, method, line),
        rocksdb=rocksdb_spec(how.rocksdb, name, f"{method}: Materialized(rocksdb=)", line),
    )


def grouped_how(
    grouped: Grouped[Any, Any] | None,
    key: SerdeLike[Any] | None,
    value: SerdeLike[Any] | None,
    name: str | None,
    method: str,
    line: str,
) -> Grouped[Any, Any]:
    """Combine `grouped=` and the arguments beside it; raise `TopologyError` if a value is given in both."""
    how = given(grouped, Grouped, None, f"{method}(grouped=)", line)
    if how is None:
        return Grouped(key=key, value=value, name=name)
    if (key, value, name) != (None, None, None):
        raise beside("grouped", method, line)
    return how


def beside(argument: str, method: str, line: str) -> TopologyError:
    """Return the error about a value given both in a value object and beside it."""
    return TopologyError(
        f"{line} {method}: key=, value= or name= is given beside {argument}=",
        next_step=f"give them either to {argument.capitalize()} or to the method",
    )


def _setting(content: object) -> str:
    return str(content).lower() if isinstance(content, bool) else str(content)


def reset_spec(reset: Reset | None, method: str, line: str) -> str | dict[str, int] | None:
    """Return `reset=` as plan data."""
    if isinstance(reset, OffsetReset):
        return reset.where if reset.duration_ms is None else {"by_duration": reset.duration_ms}
    if reset not in (None, "earliest", "latest", "none"):
        raise TopologyError(
            f"{line} {method}: reset={reset!r} is not known",
            next_step='use reset="earliest", "latest", "none" or OffsetReset.by_duration("1h")',
        )
    return reset


def timestamp_spec(timestamp: TimestampLike | None, method: str, line: str) -> Timestamps | None:
    """Return `timestamp=` as plan data."""
    if isinstance(timestamp, Expression):
        return timestamp
    if timestamp is None or callable(timestamp):
        shape = ("record", "partition_time")
        made = timestamp and callable_only(timestamp, shape, f"{method}(timestamp=)", line, "pass a function")
        return TimestampFunction(made) if made else None
    known = [name for name in vars(TimestampExtractors) if name.isupper()]
    if timestamp not in [getattr(TimestampExtractors, name) for name in known]:
        raise TopologyError(
            f"{line} {method}: timestamp={timestamp!r} is not known",
            next_step="use an expression, a function (record, partition_time) or one of TimestampExtractors: "
            f"{', '.join(known)}",
        )
    return timestamp


def check_topic(topic: object, method: str, line: str) -> str:
    """Return a topic's name if it is valid in Kafka; raise `TopologyError` otherwise."""
    valid = (
        isinstance(topic, str)
        and 0 < len(topic) <= 249
        and topic not in (".", "..")
        and all((c.isascii() and c.isalnum()) or c in "._-" for c in topic)
    )
    if not isinstance(topic, str) or not valid:
        raise TopologyError(
            f"{line} {method}: {topic!r} is no topic name",
            next_step="use 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'",
        )
    return topic
