"""Stores of processors: how they are declared, and what processors get to use them.

`Stores` gives `StoreBuilder`s: frozen data that `add_state_store` or a processor's `stores()` takes. The handles
(`KeyValueStore` and its kin) are the engine's own: `context.state_store(name)` gives them, and they work while their
processor is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

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
from stoatflow.handlers import handler
from stoatflow.indexes import Index, index_specs
from stoatflow.plan import PlanBuilder, nodes
from stoatflow.plan.defaults import UNSET_KEY, UNSET_VALUE
from stoatflow.plan.functions import user_line
from stoatflow.serdes import SerdeLike, resolve
from stoatflow.windows import span_ms

if TYPE_CHECKING:
    from stoatflow.materialized import Consumed

__all__ = [
    "NOT_PUT",
    "VALID_TO_UNDEFINED",
    "KeyValueStore",
    "SessionStore",
    "StoreBuilder",
    "StoreIterator",
    "Stores",
    "TimerStore",
    "TimestampedKeyValueStore",
    "ValueAndTimestamp",
    "VersionedKeyValueStore",
    "VersionedRecord",
    "WindowStore",
    "add_global_store",
    "add_store",
    "add_store_once",
]

K = TypeVar("K")
V = TypeVar("V")

VALID_TO_UNDEFINED = -1
"""What `VersionedKeyValueStore.put` gives for a version that still holds."""
NOT_PUT = -(2**63)
"""What `VersionedKeyValueStore.put` gives for a version that is too old to be kept."""


# A NamedTuple can't be generic before Python 3.11.
class _ValueAndTimestamp(NamedTuple):
    value: Any
    timestamp: int


class ValueAndTimestamp(_ValueAndTimestamp, Generic[V]):
    """A value of a timestamped store, and the time it is from.

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
    """A version of a key: its value, since when it holds.

    `valid_to` is when it ended; `get` leaves it out, as Kafka Streams does.

    >>> sf.VersionedRecord("cheap", 1000).value
    'cheap'
    """

    __slots__ = ()

    value: V
    timestamp: int
    valid_to: int | None


@dataclass(frozen=True)
class StoreBuilder(Generic[K, V]):
    """How a store is kept. Made by `Stores`.

    `logging=False` writes no changelog topic: what the store held is lost with the disk. A mapping gives settings of
    that topic: `logging={"min.cleanable.dirty.ratio": "0.1"}`.

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

    def __post_init__(self) -> None:
        """Check it."""
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


class Stores:
    """The kinds of stores. Serdes that are left out are those of the settings, or bytes as they are.

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
    ) -> StoreBuilder[K, V]:
        """A value per key, on disk.

        >>> store = sf.Stores.persistent_key_value("totals", key=str, value=int)
        >>> store.name, store.kind.type
        ('totals', 'key_value')
        """
        return _builder(name, nodes.StoreKindSpec("key_value"), key, value, logging, indexes=indexes)

    @staticmethod
    def in_memory_key_value(
        name: str,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        logging: Logging = True,
        indexes: Iterable[Index] = (),
    ) -> StoreBuilder[K, V]:
        """A value per key, in memory: rebuilt from the changelog at every start.

        >>> store = sf.Stores.in_memory_key_value("totals", key=str, value=int)
        >>> store.name, store.kind.type
        ('totals', 'key_value')
        """
        return _builder(name, nodes.StoreKindSpec("key_value"), key, value, logging, indexes=indexes, in_memory=True)

    @staticmethod
    def persistent_timestamped_key_value(
        name: str,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        logging: Logging = True,
        indexes: Iterable[Index] = (),
    ) -> StoreBuilder[K, V]:
        """A value and its time per key, as tables have it: `ValueAndTimestamp`.

        >>> store = sf.Stores.persistent_timestamped_key_value("totals", key=str, value=int)
        >>> store.name, store.kind.type
        ('totals', 'timestamped_key_value')
        """
        return _builder(name, nodes.StoreKindSpec("timestamped_key_value"), key, value, logging, indexes=indexes)

    @staticmethod
    def in_memory_timestamped_key_value(
        name: str,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        logging: Logging = True,
        indexes: Iterable[Index] = (),
    ) -> StoreBuilder[K, V]:
        """A value and its time per key, in memory.

        >>> store = sf.Stores.in_memory_timestamped_key_value("totals", key=str, value=int)
        >>> store.name, store.kind.type
        ('totals', 'timestamped_key_value')
        """
        return _builder(
            name, nodes.StoreKindSpec("timestamped_key_value"), key, value, logging, indexes=indexes, in_memory=True
        )

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
    ) -> StoreBuilder[K, V]:
        """A value per key and window start (several with `retain_duplicates`), kept for `retention`.

        >>> store = sf.Stores.persistent_window("per-minute", "1h", "1m", key=str, value=int)
        >>> store.name, store.kind.type
        ('per-minute', 'window')
        """
        kind = _window(name, retention, size, retain_duplicates, timestamped=False)
        return _builder(name, kind, key, value, logging)

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
    ) -> StoreBuilder[K, V]:
        """As `persistent_window`, with a time beside each value: `ValueAndTimestamp`.

        >>> store = sf.Stores.persistent_timestamped_window("per-minute", "1h", "1m", key=str, value=int)
        >>> store.name, store.kind.type
        ('per-minute', 'window')
        """
        kind = _window(name, retention, size, retain_duplicates, timestamped=True)
        return _builder(name, kind, key, value, logging)

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
    ) -> StoreBuilder[K, V]:
        """A value per key and session, kept for `retention`.

        >>> store = sf.Stores.persistent_session("visits", "1h", key=str, value=int)
        >>> store.name, store.kind.type
        ('visits', 'session')
        """
        kind = nodes.StoreKindSpec("session", retention_ms=_positive(name, "retention", retention))
        return _builder(name, kind, key, value, logging)

    @staticmethod
    def in_memory_session(
        name: str,
        retention: Duration,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        logging: Logging = True,
    ) -> StoreBuilder[K, V]:
        """As `persistent_session`, in memory.

        >>> store = sf.Stores.in_memory_session("visits", "1h", key=str, value=int)
        >>> store.name, store.kind.type
        ('visits', 'session')
        """
        kind = nodes.StoreKindSpec("session", retention_ms=_positive(name, "retention", retention))
        return _builder(name, kind, key, value, logging, in_memory=True)

    @staticmethod
    def persistent_versioned(
        name: str,
        history_retention: Duration,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        logging: Logging = True,
    ) -> StoreBuilder[K, V]:
        """Values of a key by the time since when they hold, back to `history_retention` before the newest.

        >>> store = sf.Stores.persistent_versioned("prices", "1h", key=str, value=int)
        >>> store.name, store.kind.type
        ('prices', 'versioned')
        """
        history = span_ms(history_retention, f"history_retention= of the store {name!r}")
        return _builder(name, nodes.StoreKindSpec("versioned", history_ms=history), key, value, logging)

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
        name: str, *, key: SerdeLike[K] | None = None, logging: Logging = True
    ) -> StoreBuilder[K, bytes]:
        """Timers of one processor, whose `on_timer` is called when they are due. `key` is that of its records.

        >>> store = sf.Stores.persistent_timers("alarms", key=str)
        >>> store.name, store.kind.type
        ('alarms', 'timers')
        """
        return _builder(name, nodes.StoreKindSpec("timers"), key, None, logging)

    @staticmethod
    def in_memory_timers(
        name: str, *, key: SerdeLike[K] | None = None, logging: Logging = True
    ) -> StoreBuilder[K, bytes]:
        """As `persistent_timers`, in memory: rebuilt from the changelog at every start.

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
) -> StoreBuilder[Any, Any]:
    return StoreBuilder(
        name,
        kind,
        UNSET_KEY if key is None else key,
        UNSET_VALUE if value is None else value,
        logging,
        in_memory,
        tuple(indexes),
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


def _node(store: StoreBuilder[Any, Any], line: str | None) -> nodes.StateStore:
    return nodes.StateStore(
        line=line,
        store=store.name,
        kind=store.kind,
        key=resolve(store.key),
        value=resolve(store.value),
        logged=store.logging is not False,
        in_memory=store.in_memory,
        topic=dict(store.logging) if isinstance(store.logging, Mapping) else {},
        indexes=index_specs(store.indexes, "Stores", line or ""),
    )


def _checked(store: object, method: str, line: str) -> StoreBuilder[Any, Any]:
    if not isinstance(store, StoreBuilder):
        raise TopologyError(
            f"{line} {method} needs a store from Stores, not {store!r}",
            next_step=f'write {method}(Stores.persistent_key_value("totals", key=str, value=int))',
        )
    return store


def add_store(plan: PlanBuilder, store: StoreBuilder[Any, Any], line: str) -> None:
    """Add a store to a plan."""
    plan.add(_node(_checked(store, "add_state_store", line), line))


def add_store_once(plan: PlanBuilder, store: StoreBuilder[Any, Any], line: str) -> None:
    """Add a store that a processor brings along, unless it is there: several processors may bring the same."""
    wanted = _node(store, line)
    for node in plan.snapshot():
        if isinstance(node, nodes.StateStore) and node.store == wanted.store:
            if _content(node) != _content(wanted):
                raise TopologyError(
                    f"{line} two different stores are named '{wanted.store}' (the other one: {node.line})",
                    next_step="give each store its own name, or bring the same StoreBuilder along",
                )
            return
    plan.add(wanted)


def _content(node: nodes.StateStore) -> tuple[object, ...]:
    kind = node.kind
    shape = (kind.type, kind.retention_ms, kind.size_ms, kind.history_ms, kind.duplicates, kind.timestamped)
    indexes = [(i.name, [field.to_json() for field in i.fields], i.unique, i.each) for i in node.indexes]
    return (shape, _serde(node.key), _serde(node.value), node.logged, node.in_memory, dict(node.topic), indexes)


def _serde(serde: Any) -> object:
    # A built-in serde may be a new object for each builder; a user's is the object itself.
    return serde.name if type(serde).__module__.startswith("stoatflow.") else id(serde)


def add_global_store(
    plan: PlanBuilder,
    store: StoreBuilder[Any, Any],
    topic: str,
    supplier: object,
    how: Consumed[Any, Any],
    line: str,
) -> None:
    """Add a store that a processor keeps from a topic."""
    from stoatflow.materialized import timestamp_spec
    from stoatflow.processor import supplied

    if how.watermark is not None:
        raise TopologyError(
            f"{line} add_global_store: its records are no part of event time", next_step="leave watermark= out"
        )
    checked = _checked(store, "add_global_store", line)
    # A plan of its own: the store itself may be named by the processor, and is no store beside it.
    ref, connected = supplied(PlanBuilder(), supplier, (), "add_global_store", line)
    if others := [name for name in connected if name != checked.name]:
        raise TopologyError(
            f"{line} add_global_store: {ref.display} names the store '{others[0]}', but can use '{checked.name}' only",
            next_step="leave other stores out; what needs them is a processor of its own, behind stream(...).process",
        )
    plan.add(
        nodes.GlobalStore(
            line=line,
            name=how.name,
            on_error=handler(how.on_error, "add_global_store", line),
            store=checked.name,
            kind=checked.kind,
            topic=topic,
            key=resolve(how.key),
            value=resolve(how.value),
            processor=ref,
            timestamp=timestamp_spec(how.timestamp, "add_global_store", line),
        )
    )
