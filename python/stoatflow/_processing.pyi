"""Processors and stores: the part of `_native.pyi` that says their types. There is no such module: never import it."""

from collections.abc import Callable, Iterable, Mapping
from types import GenericAlias
from typing import Any, Generic, TypeVar, final, overload

from typing_extensions import disjoint_base

from stoatflow.durations import Duration, Timestamp
from stoatflow.punctuation import PunctuationType
from stoatflow.record import FixedKeyRecord, Record, RecordMetadata
from stoatflow.stores import ValueAndTimestamp, VersionedRecord
from stoatflow.timers import TimeDomain, Timer
from stoatflow.windowed import Windowed

_K = TypeVar("_K")
_V = TypeVar("_V")
_T = TypeVar("_T")
_KOut = TypeVar("_KOut")
_VOut = TypeVar("_VOut")

@final
class Cancellable:
    """A schedule that can be ended."""

    def cancel(self) -> None:
        """End it, for all lanes; more than once is allowed. Works while the processor is called."""

@final
class KeyLocks:
    """Names and keys that are locked in a `with`. Made by `context.locks(...)`."""

    def __enter__(self) -> KeyLocks: ...
    def __exit__(self, *error: object) -> None: ...

@final
class ProcessorContext(Generic[_KOut, _VOut]):
    """What a processor gets in `init`. Works while its processor is called, in the thread that calls it."""

    def __class_getitem__(cls, item: Any) -> GenericAlias: ...
    def forward(self, record: Record[_KOut, _VOut] | FixedKeyRecord[_KOut, _VOut], child: str | None = None) -> None:
        """Pass a record on, to all children or to the one of this name."""
    def state_store(self, name: str) -> Any:
        """Give a store that the processor is connected to: a `KeyValueStore`, `WindowStore`, ..., by its kind."""
    def schedule(
        self,
        interval: Duration,
        type: PunctuationType,  # noqa: A002  # the name that Kafka Streams has
        callback: Callable[[int], object],
        *,
        start: Timestamp | None = None,
    ) -> Cancellable:
        """Have `callback(time)` called whenever `interval` has passed; `start` is a point of the grid."""
    def locks(self, *what: str | tuple[Any, Any], timeout: Duration | None = None) -> KeyLocks:
        """Lock names and pairs of store (or its name) and key, for a `with`; wait 30 s if nothing else is said.

        What is locked is locked for all lanes: for their sections, and for `compute`, `merge`, `put_if_absent` and
        `delete`. Name all of it in one call.
        """
    def commit(self) -> None:
        """Ask for a commit soon; it is not waited for."""
    def advance_watermark(self, timestamp: Timestamp) -> None:
        """Raise the application's watermark to at least this time, from the next commit on. It stays there."""
    @property
    def watermark_ms(self) -> int:
        """The application's watermark as of the last commit: what is older is late; -1: none yet."""
    @property
    def record_metadata(self) -> RecordMetadata | None:
        """Where the record that is being processed was read from; `None` in `init` and punctuations."""
    @property
    def stream_time_ms(self) -> int:
        """The highest timestamp of the record's task so far, or the watermark (`time.semantics`); -1: none yet."""
    @property
    def system_time_ms(self) -> int:
        """The machine's clock."""
    @property
    def application_id(self) -> str:
        """The setting `application.id`."""
    @property
    def lane(self) -> int:
        """The lane that the processor belongs to, for logs."""

@final
class StoreIterator(Generic[_T]):
    """Entries in their order; also a context manager."""

    def __iter__(self) -> StoreIterator[_T]: ...
    def __next__(self) -> _T: ...
    def __length_hint__(self) -> int: ...
    def peek(self) -> _T | None:
        """Give the next entry without taking it; `None` at the end."""
    def close(self) -> None:
        """Forget the rest."""
    def __enter__(self) -> StoreIterator[_T]: ...
    def __exit__(self, *error: object) -> None: ...

@disjoint_base
class KeyValueStore(Generic[_K, _V]):
    """A value per key. Keys are ordered by their bytes."""

    def __class_getitem__(cls, item: Any) -> GenericAlias: ...
    @property
    def name(self) -> str:
        """The store's name."""
    @overload
    def get(self, key: _K) -> _V | None: ...
    @overload
    def get(self, key: _K, default: _T) -> _V | _T: ...
    def put(self, key: _K, value: _V | None) -> None:
        """Write a value; `None` deletes."""
    def put_if_absent(self, key: _K, value: _V | None) -> _V | None:
        """Write a value unless the key has one; give the one it has. One step for all lanes."""
    def compute(self, key: _K, function: Callable[[_K, _V | None], _V | None]) -> _V | None:
        """Write what `function(key, value)` gives (`None` deletes), in one step for all lanes; give it.

        The function runs again if another lane puts the key meanwhile.
        """
    def compute_if_absent(self, key: _K, function: Callable[[_K], _V | None]) -> _V | None:
        """Write what `function(key)` gives if the key has no value; give the value that it has then."""
    def compute_if_present(self, key: _K, function: Callable[[_K, _V], _V | None]) -> _V | None:
        """Write what `function(key, value)` gives if the key has a value; give the new one."""
    def merge(self, key: _K, operand: _V, function: Callable[[_V, _V], _V | None]) -> _V | None:
        """Write `operand` if the key has no value, else `function(value, operand)`; give the new value."""
    def put_all(self, items: Mapping[_K, _V] | Iterable[tuple[_K, _V | None]]) -> None:
        """Write many."""
    def delete(self, key: _K) -> _V | None:
        """Delete a key; give the value it had. One step for all lanes."""
    def range(
        self, lo: _K | None = None, hi: _K | None = None, *, reverse: bool = False
    ) -> StoreIterator[tuple[_K, _V]]:
        """Give the entries between two keys, both included."""
    def reverse_range(self, lo: _K | None = None, hi: _K | None = None) -> StoreIterator[tuple[_K, _V]]:
        """Give the entries between two keys, the last one first."""
    def all(self, *, reverse: bool = False) -> StoreIterator[tuple[_K, _V]]:
        """Give all entries."""
    def reverse_all(self) -> StoreIterator[tuple[_K, _V]]:
        """Give all entries, the last one first."""
    def prefix_scan(self, prefix: _K | bytes) -> StoreIterator[tuple[_K, _V]]:
        """Give the entries whose key's bytes begin with those of `prefix`."""
    def approximate_len(self) -> int:
        """Give about how many keys there are."""
    def __getitem__(self, key: _K, /) -> _V: ...
    def __setitem__(self, key: _K, value: _V | None, /) -> None: ...
    def __delitem__(self, key: _K, /) -> None: ...
    def __contains__(self, key: _K, /) -> bool: ...
    def __iter__(self) -> StoreIterator[_K]: ...

@final
class TimestampedKeyValueStore(KeyValueStore[_K, ValueAndTimestamp[_V]], Generic[_K, _V]):
    """A value and its time per key."""

@final
class WindowStore(Generic[_K, _V]):
    """A value (or several) per key and window start. Bounds of time are inclusive."""

    def __class_getitem__(cls, item: Any) -> GenericAlias: ...
    @property
    def name(self) -> str:
        """The store's name."""
    def put(self, key: _K, value: _V | None, start: Timestamp) -> None:
        """Write the value of the window that starts at `start`; `None` deletes."""
    @overload
    def fetch(self, key: _K, start: Timestamp) -> _V | None: ...
    @overload
    def fetch(
        self,
        key: _K,
        start: None = None,
        *,
        frm: Timestamp | None = None,
        to: Timestamp | None = None,
        reverse: bool = False,
    ) -> StoreIterator[tuple[int, _V]]: ...
    def backward_fetch(
        self, key: _K, frm: Timestamp | None = None, to: Timestamp | None = None
    ) -> StoreIterator[tuple[int, _V]]:
        """Give (start, value), the last window first."""
    def fetch_range(
        self,
        lo: _K | None = None,
        hi: _K | None = None,
        *,
        frm: Timestamp | None = None,
        to: Timestamp | None = None,
        reverse: bool = False,
    ) -> StoreIterator[tuple[Windowed[_K], _V]]:
        """Give the windows of the keys between two."""
    def fetch_all(
        self, frm: Timestamp | None = None, to: Timestamp | None = None, *, reverse: bool = False
    ) -> StoreIterator[tuple[Windowed[_K], _V]]:
        """Give the windows of all keys that start between two times."""
    def all(self, *, reverse: bool = False) -> StoreIterator[tuple[Windowed[_K], _V]]:
        """Give everything."""

@final
class SessionStore(Generic[_K, _V]):
    """A value per key and session."""

    def __class_getitem__(cls, item: Any) -> GenericAlias: ...
    @property
    def name(self) -> str:
        """The store's name."""
    def put(self, session: Windowed[_K], value: _V | None) -> None:
        """Write a session; `None` removes it."""
    def remove(self, session: Windowed[_K]) -> None:
        """Remove a session."""
    def fetch_session(self, key: _K, start: Timestamp, end: Timestamp) -> _V | None:
        """Give the value of one session."""
    def find_sessions(
        self, key: _K | None = None, *, earliest_end: Timestamp, latest_start: Timestamp, reverse: bool = False
    ) -> StoreIterator[tuple[Windowed[_K], _V]]:
        """Give the sessions that end at `earliest_end` or later and start at `latest_start` or earlier."""
    def fetch(self, lo: _K, hi: _K | None = None, *, reverse: bool = False) -> StoreIterator[tuple[Windowed[_K], _V]]:
        """Give all sessions of a key, or of the keys between two."""

@final
class TimerStore(Generic[_K]):
    """Timers of a processor. A key, a time and a clock are one timer, however often it is registered."""

    def __class_getitem__(cls, item: Any) -> GenericAlias: ...
    @property
    def name(self) -> str:
        """The store's name."""
    def register(self, at: Timestamp, *, key: _K = ..., domain: TimeDomain = "event") -> None:
        """Have `on_timer` called for a key at a time; without `key` that of the record (or timer) at hand."""
    def cancel(self, at: Timestamp, *, key: _K = ..., domain: TimeDomain = "event") -> None:
        """Forget a timer, if it is there."""
    def pending(self, key: _K = ...) -> list[Timer[_K]]:
        """Give the timers of a key, those of event time first, by time. It looks through the timers of all keys."""

@final
class VersionedKeyValueStore(Generic[_K, _V]):
    """Values of a key by the time since when they hold."""

    def __class_getitem__(cls, item: Any) -> GenericAlias: ...
    @property
    def name(self) -> str:
        """The store's name."""
    def put(self, key: _K, value: _V | None, timestamp: Timestamp) -> int:
        """Write a version; give when it ends, `VALID_TO_UNDEFINED`, or `NOT_PUT` if it is too old to be kept."""
    def get(self, key: _K, as_of: Timestamp | None = None) -> VersionedRecord[_V] | None:
        """Give the version that holds now, or held at a time."""
    def delete(self, key: _K, timestamp: Timestamp) -> VersionedRecord[_V] | None:
        """End what holds at a time; give the version that held then."""
