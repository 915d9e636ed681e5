"""Stores of processors: their declarations, and the types of their handles.

`Stores` creates `StoreBuilder`s: frozen data for `add_state_store` or a processor's `stores()`. The handles
(`KeyValueStore` and others) belong to the engine: `context.state_store(name)` returns them, and they can be used only
while their processor is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from stoatflow._dsl.header_values import AggregationWithHeaders, ValueTimestampHeaders
from stoatflow._dsl.java_names import JavaNames
from stoatflow._runtime.bridge import (
    KeyValueStore,
    SessionStore,
    StoreIterator,
    TimerStore,
    TimestampedKeyValueStore,
    VersionedKeyValueStore,
    WindowStore,
)
from stoatflow.durations import Duration
from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression
from stoatflow.indexes import Index
from stoatflow.plan import nodes
from stoatflow.plan.functions import user_line
from stoatflow.plan.settings import UNSET_KEY, UNSET_VALUE
from stoatflow.rocksdb_config import RocksDBConfig
from stoatflow.serdes import SerdeLike
from stoatflow.windows import span_ms

if TYPE_CHECKING:
    from stoatflow.timers import TimeDomain

__all__ = [
    "NOT_PUT",
    "VALID_TO_UNDEFINED",
    "AggregationWithHeaders",
    "KeyValueStore",
    "SessionStore",
    "StoreBuilder",
    "StoreIterator",
    "Stores",
    "TimerStore",
    "TimestampedKeyValueStore",
    "ValueAndTimestamp",
    "ValueTimestampHeaders",
    "VersionedKeyValueStore",
    "VersionedRecord",
    "WindowStore",
]

K = TypeVar("K")
V = TypeVar("V")

VALID_TO_UNDEFINED = -1
"""Returned by `VersionedKeyValueStore.put` for a version that is still valid."""
NOT_PUT = -(2**63)
"""Returned by `VersionedKeyValueStore.put` for a version that is too old to be kept."""


# A NamedTuple can't be generic before Python 3.11.
class _ValueAndTimestamp(NamedTuple):
    value: Any
    timestamp: int


class ValueAndTimestamp(_ValueAndTimestamp, Generic[V]):
    """A value of a timestamped store, and its timestamp.

    >>> total, since = sf.ValueAndTimestamp(42, 1000)
    >>> total
    42
    """

    __slots__ = ()

    value: V
    timestamp: int


class _VersionedRecord(NamedTuple):
    value: Any
    timestamp: int
    valid_to: int | None = None


class VersionedRecord(_VersionedRecord, Generic[V]):
    """A version of a key: its value, and since when it is valid.

    `valid_to` is the end of its validity; `get` leaves it out, as Kafka Streams does.

    >>> sf.VersionedRecord("cheap", 1000).value
    'cheap'
    """

    __slots__ = ()

    value: V
    timestamp: int
    valid_to: int | None


_NO_TTL = {
    "window": "a window store has a retention, which says how long windows are kept",
    "session": "a session store has a retention, which says how long sessions are kept",
    "versioned": "a versioned store has a history_retention, which says how far back versions are kept",
    "timers": "a timer is deleted when it fires",
}
"""Why rows of these kinds of stores have no ttl."""


@dataclass(frozen=True)
class StoreBuilder(Generic[K, V]):
    """The declaration of a store. Created by `Stores`.

    `logging=False` disables the changelog topic: the state is lost with the disk. A mapping sets options of that topic:
    `logging={"min.cleanable.dirty.ratio": "0.1"}`. `rocksdb` configures RocksDB for a persistent store. With `ttl` (a
    duration, or an expression that returns milliseconds for a row, null for never) a key-value store deletes rows that
    long after their last write: by stream time, or with `ttl_time="processing"` by the wall clock.

    >>> totals = sf.Stores.key_value("totals", key=str, value=int)
    >>> totals.name, totals.key
    ('totals', <class 'str'>)
    """

    name: str
    kind: nodes.StoreKindSpec
    key: SerdeLike[K]
    value: SerdeLike[V]
    logging: bool | Mapping[str, str] = True
    in_memory: bool = False
    indexes: tuple[Index, ...] = ()
    rocksdb: RocksDBConfig | None = None
    ttl: Duration | Expression | None = None
    ttl_time: TimeDomain | None = None
    headers: bool = False

    def __post_init__(self) -> None:
        """Check the arguments."""
        if not isinstance(self.name, str) or not self.name:
            raise TopologyError(
                f"{user_line()} a store needs a name, not {self.name!r}",
                next_step='write Stores.persistent_key_value("totals", ...)',
            )
        if isinstance(self.logging, Mapping):
            object.__setattr__(self, "logging", MappingProxyType(dict(self.logging)))
        elif not isinstance(self.logging, bool):
            raise TopologyError(
                f"{user_line()} logging= of the store '{self.name}' must be True, False or a mapping, "
                f"not {self.logging!r}",
                next_step="write logging=False or logging={setting: value}",
            )
        refused = _NO_TTL.get(self.kind.type)
        if self.ttl is not None and refused is not None:
            raise TopologyError(
                f"{user_line()} the store '{self.name}' has a ttl, but {refused}",
                next_step="leave ttl= out, or use Stores.persistent_key_value",
            )


class Stores(JavaNames):
    """The kinds of stores. Serdes that are left out are those of the settings, or raw bytes.

    >>> totals = sf.Stores.in_memory_key_value("totals", key=str, value=int)
    >>> totals.name
    'totals'
    """

    @staticmethod
    def persistent_key_value(
        name: str,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        logging: Logging = True,
        indexes: Iterable[Index] = (),
        rocksdb: RocksDBConfig | None = None,
        ttl: Duration | Expression | None = None,
        ttl_time: TimeDomain | None = None,
    ) -> StoreBuilder[K, V]:
        """A value per key, on disk.

        >>> store = sf.Stores.persistent_key_value("totals", key=str, value=int)
        >>> store.name, store.kind.type
        ('totals', 'key_value')
        """
        kind, lives = nodes.StoreKindSpec("key_value"), (ttl, ttl_time)
        return _builder(name, kind, key, value, logging, indexes=indexes, rocksdb=rocksdb, ttl=lives)

    @staticmethod
    def in_memory_key_value(
        name: str,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        logging: Logging = True,
        indexes: Iterable[Index] = (),
        ttl: Duration | Expression | None = None,
        ttl_time: TimeDomain | None = None,
    ) -> StoreBuilder[K, V]:
        """A value per key, in memory: restored from the changelog at every start.

        >>> store = sf.Stores.in_memory_key_value("totals", key=str, value=int)
        >>> store.name, store.kind.type
        ('totals', 'key_value')
        """
        kind, lives = nodes.StoreKindSpec("key_value"), (ttl, ttl_time)
        return _builder(name, kind, key, value, logging, indexes=indexes, in_memory=True, ttl=lives)

    @staticmethod
    def persistent_timestamped_key_value(
        name: str,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        logging: Logging = True,
        indexes: Iterable[Index] = (),
        rocksdb: RocksDBConfig | None = None,
        ttl: Duration | Expression | None = None,
        ttl_time: TimeDomain | None = None,
        headers: bool = False,
    ) -> StoreBuilder[K, V]:
        """A value and its timestamp per key, as in tables: `ValueAndTimestamp`.

        With `headers`, each value has headers too, as in `persistentTimestampedKeyValueStoreWithHeaders` of Kafka
        Streams: the store takes and returns `ValueTimestampHeaders`.

        >>> store = sf.Stores.persistent_timestamped_key_value("totals", key=str, value=int)
        >>> store.name, store.kind.type
        ('totals', 'timestamped_key_value')
        """
        kind, lives = nodes.StoreKindSpec("timestamped_key_value"), (ttl, ttl_time)
        return _builder(name, kind, key, value, logging, indexes=indexes, rocksdb=rocksdb, ttl=lives, headers=headers)

    @staticmethod
    def in_memory_timestamped_key_value(
        name: str,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        logging: Logging = True,
        indexes: Iterable[Index] = (),
        ttl: Duration | Expression | None = None,
        ttl_time: TimeDomain | None = None,
        headers: bool = False,
    ) -> StoreBuilder[K, V]:
        """A value and its timestamp per key, in memory; with `headers`, each value has headers too.

        >>> store = sf.Stores.in_memory_timestamped_key_value("totals", key=str, value=int)
        >>> store.name, store.kind.type
        ('totals', 'timestamped_key_value')
        """
        kind, lives = nodes.StoreKindSpec("timestamped_key_value"), (ttl, ttl_time)
        return _builder(name, kind, key, value, logging, indexes=indexes, in_memory=True, ttl=lives, headers=headers)

    @staticmethod
    def persistent_window(
        name: str,
        retention: Duration,
        size: Duration,
        retain_duplicates: bool = False,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        logging: Logging = True,
        rocksdb: RocksDBConfig | None = None,
    ) -> StoreBuilder[K, V]:
        """A value per key and window start (several with `retain_duplicates`), kept for `retention`.

        >>> store = sf.Stores.persistent_window("per-minute", "1h", "1m", key=str, value=int)
        >>> store.name, store.kind.type
        ('per-minute', 'window')
        """
        kind = _window(name, retention, size, retain_duplicates, timestamped=False)
        return _builder(name, kind, key, value, logging, rocksdb=rocksdb)

    @staticmethod
    def persistent_timestamped_window(
        name: str,
        retention: Duration,
        size: Duration,
        retain_duplicates: bool = False,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        logging: Logging = True,
        rocksdb: RocksDBConfig | None = None,
        headers: bool = False,
    ) -> StoreBuilder[K, V]:
        """As `persistent_window`, with a timestamp for each value: `ValueAndTimestamp`.

        With `headers`, each value has headers too: `ValueTimestampHeaders`.

        >>> store = sf.Stores.persistent_timestamped_window("per-minute", "1h", "1m", key=str, value=int)
        >>> store.name, store.kind.type
        ('per-minute', 'window')
        """
        kind = _window(name, retention, size, retain_duplicates, timestamped=True)
        return _builder(name, kind, key, value, logging, rocksdb=rocksdb, headers=headers)

    @staticmethod
    def in_memory_window(
        name: str,
        retention: Duration,
        size: Duration,
        retain_duplicates: bool = False,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        logging: Logging = True,
    ) -> StoreBuilder[K, V]:
        """As `persistent_window`, in memory.

        >>> store = sf.Stores.in_memory_window("per-minute", "1h", "1m", key=str, value=int)
        >>> store.name, store.kind.type
        ('per-minute', 'window')
        """
        kind = _window(name, retention, size, retain_duplicates, timestamped=False)
        return _builder(name, kind, key, value, logging, in_memory=True)

    @staticmethod
    def persistent_session(
        name: str,
        retention: Duration,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        logging: Logging = True,
        rocksdb: RocksDBConfig | None = None,
        headers: bool = False,
    ) -> StoreBuilder[K, V]:
        """A value per key and session, kept for `retention`; with `headers`, `AggregationWithHeaders`.

        >>> store = sf.Stores.persistent_session("visits", "1h", key=str, value=int)
        >>> store.name, store.kind.type
        ('visits', 'session')
        """
        kind = nodes.StoreKindSpec("session", retention_ms=_positive(name, "retention", retention))
        return _builder(name, kind, key, value, logging, rocksdb=rocksdb, headers=headers)

    @staticmethod
    def in_memory_session(
        name: str,
        retention: Duration,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        logging: Logging = True,
        headers: bool = False,
    ) -> StoreBuilder[K, V]:
        """As `persistent_session`, in memory.

        >>> store = sf.Stores.in_memory_session("visits", "1h", key=str, value=int)
        >>> store.name, store.kind.type
        ('visits', 'session')
        """
        kind = nodes.StoreKindSpec("session", retention_ms=_positive(name, "retention", retention))
        return _builder(name, kind, key, value, logging, in_memory=True, headers=headers)

    @staticmethod
    def persistent_versioned(
        name: str,
        history_retention: Duration,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        logging: Logging = True,
        rocksdb: RocksDBConfig | None = None,
    ) -> StoreBuilder[K, V]:
        """Versions of a key's value, by the timestamp since which each is valid, back to `history_retention`.

        >>> store = sf.Stores.persistent_versioned("prices", "1h", key=str, value=int)
        >>> store.name, store.kind.type
        ('prices', 'versioned')
        """
        history = span_ms(history_retention, f"history_retention= of the store {name!r}")
        kind = nodes.StoreKindSpec("versioned", history_ms=history)
        return _builder(name, kind, key, value, logging, rocksdb=rocksdb)

    @staticmethod
    def in_memory_versioned(
        name: str,
        history_retention: Duration,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        logging: Logging = True,
    ) -> StoreBuilder[K, V]:
        """As `persistent_versioned`, in memory (Kafka Streams has no such store).

        >>> store = sf.Stores.in_memory_versioned("prices", "1h", key=str, value=int)
        >>> store.name, store.kind.type
        ('prices', 'versioned')
        """
        history = span_ms(history_retention, f"history_retention= of the store {name!r}")
        return _builder(name, nodes.StoreKindSpec("versioned", history_ms=history), key, value, logging, in_memory=True)

    @staticmethod
    def persistent_timers(
        name: str,
        *,
        key: SerdeLike[K] | None = None,
        logging: Logging = True,
        rocksdb: RocksDBConfig | None = None,
    ) -> StoreBuilder[K, bytes]:
        """Timers of one processor, whose `on_timer` is called when they are due. `key` is the serde of record keys.

        >>> store = sf.Stores.persistent_timers("alarms", key=str)
        >>> store.name, store.kind.type
        ('alarms', 'timers')
        """
        return _builder(name, nodes.StoreKindSpec("timers"), key, None, logging, rocksdb=rocksdb)

    @staticmethod
    def in_memory_timers(
        name: str, *, key: SerdeLike[K] | None = None, logging: Logging = True
    ) -> StoreBuilder[K, bytes]:
        """As `persistent_timers`, in memory: restored from the changelog at every start.

        >>> store = sf.Stores.in_memory_timers("alarms", key=str)
        >>> store.name, store.kind.type
        ('alarms', 'timers')
        """
        return _builder(name, nodes.StoreKindSpec("timers"), key, None, logging, in_memory=True)

    key_value = persistent_key_value
    timestamped_key_value = persistent_timestamped_key_value
    window = persistent_window
    session = persistent_session
    versioned = persistent_versioned
    timers = persistent_timers


Logging = bool | Mapping[str, str]


def _builder(
    name: str,
    kind: nodes.StoreKindSpec,
    key: SerdeLike[Any] | None,
    value: SerdeLike[Any] | None,
    logging: Logging,
    *,
    in_memory: bool = False,
    indexes: Iterable[Index] = (),
    rocksdb: RocksDBConfig | None = None,
    ttl: tuple[Duration | Expression | None, TimeDomain | None] = (None, None),
    headers: bool = False,
) -> StoreBuilder[Any, Any]:
    return StoreBuilder(
        name,
        kind,
        UNSET_KEY if key is None else key,
        UNSET_VALUE if value is None else value,
        logging,
        in_memory,
        tuple(indexes),
        rocksdb,
        *ttl,
        headers,
    )


def _positive(name: str, what: str, duration: Duration) -> int:
    return span_ms(duration, f"{what}= of the store {name!r}", least=1)


def _window(
    name: str, retention: Duration, size: Duration, retain_duplicates: bool, *, timestamped: bool
) -> nodes.StoreKindSpec:
    retention_ms, size_ms = _positive(name, "retention", retention), _positive(name, "size", size)
    if retention_ms < size_ms:
        raise TopologyError(
            f"{user_line()} the store '{name}' keeps windows of {size_ms} ms for {retention_ms} ms only",
            next_step="give a retention that is at least as long as the windows",
        )
    return nodes.StoreKindSpec(
        "window",
        retention_ms=retention_ms,
        size_ms=size_ms,
        duplicates=bool(retain_duplicates),
        timestamped=timestamped,
    )
