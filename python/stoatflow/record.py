"""Records of processors and tests.

Takes keys, values, timestamps in milliseconds and headers; frozen values. Headers keep their order, names may occur
more than once. The engine creates records without `__init__`: its values need no check.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")

Header: TypeAlias = tuple[str, bytes | None]
Headers: TypeAlias = tuple[Header, ...]
HeadersLike: TypeAlias = "Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]]"
_SAME: Any = object()


def headers_of(headers: HeadersLike) -> Headers:
    """Return headers as records hold them; text is encoded as UTF-8."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((name, text.encode() if isinstance(text, str) else text) for name, text in pairs)


def _check(record: Record[Any, Any] | FixedKeyRecord[Any, Any]) -> None:
    timestamp = record.timestamp
    if isinstance(timestamp, bool) or not isinstance(timestamp, int):
        raise TypeError(f"a record's timestamp is a number of milliseconds, not {timestamp!r}")
    if timestamp < 0:
        raise ValueError(f"a record can't have the negative timestamp {timestamp}")
    if type(record.headers) is not tuple or any(
        type(header) is not tuple or isinstance(header[1], str) for header in record.headers
    ):
        object.__setattr__(record, "headers", headers_of(record.headers))


@dataclass(frozen=True, slots=True)
class Record(Generic[K, V]):
    """Key, value, timestamp in milliseconds, and headers in order (names may occur more than once).

    >>> record = sf.Record("a", 1, timestamp=1000)
    >>> record.replace(value=2)
    Record(key='a', value=2, timestamp=1000, headers=())
    """

    key: K | None
    value: V | None
    timestamp: int
    headers: Headers = ()

    def __post_init__(self) -> None:
        """Check the fields."""
        _check(self)

    def replace(
        self,
        *,
        key: K2 = _SAME,
        value: V2 = _SAME,
        timestamp: int = _SAME,
        headers: HeadersLike = _SAME,
    ) -> Record[Any, Any]:
        """Return a record with other contents; fields that are left out stay the same.

        >>> record = sf.Record("a", 1, timestamp=1000)
        >>> record.replace(value=2, headers={"by": "me"})
        Record(key='a', value=2, timestamp=1000, headers=(('by', b'me'),))
        """
        return Record(
            self.key if key is _SAME else key,
            self.value if value is _SAME else value,
            self.timestamp if timestamp is _SAME else timestamp,
            self.headers if headers is _SAME else headers_of(headers),
        )


@dataclass(frozen=True, slots=True)
class FixedKeyRecord(Generic[K, V]):
    """A record whose key can't change. The engine creates them; `replace` returns others with the same key.

    >>> record = sf.FixedKeyRecord("a", 1, timestamp=1000)
    >>> record.replace(value=2).value
    2
    """

    key: K | None
    value: V | None
    timestamp: int
    headers: Headers = ()

    def __post_init__(self) -> None:
        """Check the fields."""
        _check(self)

    def replace(
        self, *, value: V2 = _SAME, timestamp: int = _SAME, headers: HeadersLike = _SAME
    ) -> FixedKeyRecord[K, Any]:
        """Return a record with other contents; fields that are left out stay the same.

        >>> record = sf.FixedKeyRecord("a", 1, timestamp=1000)
        >>> record.replace(value=2).value
        2
        """
        return FixedKeyRecord(
            self.key,
            self.value if value is _SAME else value,
            self.timestamp if timestamp is _SAME else timestamp,
            self.headers if headers is _SAME else headers_of(headers),
        )


class RecordMetadata(NamedTuple):
    """Topic, partition and offset of the record that is being processed.

    >>> sf.RecordMetadata(topic="orders", partition=0, offset=7).offset
    7
    """

    topic: str
    partition: int
    offset: int
