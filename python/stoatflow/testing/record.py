"""A record as tests write and read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

K = TypeVar("K")
V = TypeVar("V")

Header: TypeAlias = tuple[str, bytes | None]
Headers: TypeAlias = tuple[Header, ...]


@dataclass(frozen=True, slots=True)
class Record(Generic[K, V]):
    """Key, value, timestamp in milliseconds, headers in their order (names may repeat)."""

    key: K | None
    value: V | None
    timestamp: int
    headers: Headers = ()
