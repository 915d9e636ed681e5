"""Processors and stores: types of a part of `_native`, not a module of its own. Never import it."""

from collections.abc import Callable, Iterable, Mapping
from types import GenericAlias
from typing import Any, Generic, TypeVar, final, overload

from typing_extensions import disjoint_base

from stoatflow.durations import Duration, Timestamp
from stoatflow.metrics import Metrics
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
    """A schedule that can be cancelled."""

    def cancel(self) -> None:
        """End the schedule in all lanes; may be called more than once. Call it while the processor runs."""

@final
class KeyLocks:
    """Locks of names and keys, for a `with`. Created by `context.locks(...)`."""

    def __enter__(self) -> KeyLocks: ...
    def __exit__(self, *error: object) -> None: ...

@final
class ProcessorContext(Generic[_KOut, _VOut]):
    """What a processor gets in `init`. Use it only while the processor is called, in the thread that calls it."""

    def __class_getitem__(cls, item: Any) -> GenericAlias: ...
    def forward(self, record: Record[_KOut, _VOut] | FixedKeyRecord[_KOut, _VOut], child: str | None = None) -> None:
        """Pass a record on to all children, or to the child of this name."""
    def state_store(self, name: str) -> Any:
        """Return a store that is connected to the processor, as a `KeyValueStore`, `WindowStore`, ..., by its kind."""
    def schedule(
        self,
        interval: Duration,
        type: PunctuationType,  # noqa: A002  # the name in Kafka Streams
        callback: Callable[[int], object],
        *,
        start: Timestamp | None = None,
    ) -> Cancellable:
        """Call `callback(time)` whenever `interval` has passed; `start` aligns the schedule."""
    def locks(self, *what: str | tuple[Any, Any], timeout: Duration | None = None) -> KeyLocks:
        """Lock names, or pairs of a store (or its name) and a key, for a `with`; wait 30 s without `timeout`.

        The locks hold against all lanes: against their `with` blocks, and `compute`, `merge`, `put_if_absent` and
        `delete`. Name all locks in one call.
        """
    def commit(self) -> None:
        """Request a commit soon; returns without waiting for it."""
    def advance_watermark(self, timestamp: Timestamp) -> None:
        """Raise the application's watermark to at least this time, from the next commit on. It never falls."""
    @property
    def watermark_ms(self) -> int:
        """The application's watermark as of the last commit: older records are late. -1 if there is none yet."""
    @property
    def record_metadata(self) -> RecordMetadata | None:
        """Topic, partition and offset of the record that is being processed; `None` in `init` and punctuations."""
    @property
    def stream_time_ms(self) -> int:
        """The highest timestamp of the record's task so far, or the watermark (`time.semantics`); -1 if none."""
    @property
    def system_time_ms(self) -> int:
        """The wall clock of the machine."""
    @property
    def application_id(self) -> str:
        """The setting `application.id`."""
    @property
    def metrics(self) -> Metrics:
        """The metrics of the topology, to define and change one's own."""
    @property
    def lane(self) -> int:
        """The lane that the processor runs in, for logs."""

@final
class StoreIterator(Generic[_T]):
    """Entries in their order; also a context manager."""

    def __iter__(self) -> StoreIterator[_T]: ...
    def __next__(self) -> _T: ...
    def __length_hint__(self) -> int: ...
    def peek(self) -> _T | None:
        """Return the next entry without consuming it; `None` at the end."""
    def close(self) -> None:
        """Drop the entries not read yet."""
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
        """Write a value unless the key has one; return the existing one. Atomic across lanes."""
    def compute(self, key: _K, function: Callable[[_K, _V | None], _V | None]) -> _V | None:
        """Write the result of `function(key, value)` (`None` deletes), atomically across lanes; return it.

        The function is called again if another lane writes the key meanwhile.
        """
    def compute_if_absent(self, key: _K, function: Callable[[_K], _V | None]) -> _V | None:
        """Write the result of `function(key)` if the key has no value; return the key's value then."""
    def compute_if_present(self, key: _K, function: Callable[[_K, _V], _V | None]) -> _V | None:
        """Write the result of `function(key, value)` if the key has a value; return the new value."""
    def merge(self, key: _K, operand: _V, function: Callable[[_V, _V], _V | None]) -> _V | None:
        """Write `operand` if the key has no value, else `function(value, operand)`; return the new value."""
    def put_all(self, items: Mapping[_K, _V] | Iterable[tuple[_K, _V | None]]) -> None:
        """Write many."""
    def delete(self, key: _K) -> _V | None:
        """Delete a key; return the value that it had. Atomic across lanes."""
    def range(
        self, lo: _K | None = None, hi: _K | None = None, *, reverse: bool = False
    ) -> StoreIterator[tuple[_K, _V]]:
        """Return the entries between two keys, both included."""
    def reverse_range(self, lo: _K | None = None, hi: _K | None = None) -> StoreIterator[tuple[_K, _V]]:
        """Return the entries between two keys in descending order."""
    def all(self, *, reverse: bool = False) -> StoreIterator[tuple[_K, _V]]:
        """Return all entries."""
    def reverse_all(self) -> StoreIterator[tuple[_K, _V]]:
        """Return all entries in descending order."""
    def prefix_scan(self, prefix: _K | bytes) -> StoreIterator[tuple[_K, _V]]:
        """Return the entries whose key bytes begin with those of `prefix`."""
    def approximate_len(self) -> int:
        """Return the approximate number of keys."""
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
    """A value (or several) per key and window start. Time bounds are inclusive."""

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
        """Return (start, value), the latest window first."""
    def fetch_range(
        self,
        lo: _K | None = None,
        hi: _K | None = None,
        *,
        frm: Timestamp | None = None,
        to: Timestamp | None = None,
        reverse: bool = False,
    ) -> StoreIterator[tuple[Windowed[_K], _V]]:
        """Return the windows of the keys between two keys."""
    def fetch_all(
        self, frm: Timestamp | None = None, to: Timestamp | None = None, *, reverse: bool = False
    ) -> StoreIterator[tuple[Windowed[_K], _V]]:
        """Return the windows of all keys that start between two times."""
    def all(self, *, reverse: bool = False) -> StoreIterator[tuple[Windowed[_K], _V]]:
        """Return all windows."""

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
        """Return the value of one session."""
    def find_sessions(
        self, key: _K | None = None, *, earliest_end: Timestamp, latest_start: Timestamp, reverse: bool = False
    ) -> StoreIterator[tuple[Windowed[_K], _V]]:
        """Return the sessions that end at `earliest_end` or later and start at `latest_start` or earlier."""
    def fetch(self, lo: _K, hi: _K | None = None, *, reverse: bool = False) -> StoreIterator[tuple[Windowed[_K], _V]]:
        """Return all sessions of a key, or of the keys between two."""

@final
class TimerStore(Generic[_K]):
    """Timers of a processor. Registering the same key, time and clock again has no effect."""

    def __class_getitem__(cls, item: Any) -> GenericAlias: ...
    @property
    def name(self) -> str:
        """The store's name."""
    def register(self, at: Timestamp, *, key: _K = ..., domain: TimeDomain = "event") -> None:
        """Call `on_timer` for a key at a time; without `key`, for the key of the current record (or timer)."""
    def cancel(self, at: Timestamp, *, key: _K = ..., domain: TimeDomain = "event") -> None:
        """Cancel a timer, if it exists."""
    def pending(self, key: _K = ...) -> list[Timer[_K]]:
        """Return the timers of a key, event time first, then by time. Scans the timers of all keys."""

@final
class VersionedKeyValueStore(Generic[_K, _V]):
    """Versions of a key's value, by the timestamp since which each is valid."""

    def __class_getitem__(cls, item: Any) -> GenericAlias: ...
    @property
    def name(self) -> str:
        """The store's name."""
    def put(self, key: _K, value: _V | None, timestamp: Timestamp) -> int:
        """Write a version; return when it ends, `VALID_TO_UNDEFINED`, or `NOT_PUT` if it is too old to be kept."""
    def get(self, key: _K, as_of: Timestamp | None = None) -> VersionedRecord[_V] | None:
        """Return the version that is valid now, or was valid at a time."""
    def delete(self, key: _K, timestamp: Timestamp) -> VersionedRecord[_V] | None:
        """End the version that is valid at a time; return it."""
