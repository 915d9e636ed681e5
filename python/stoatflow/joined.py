"""Value objects that say how the two sides of a join are read, kept and named.

Takes serdes and names, gives frozen data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from stoatflow.durations import Duration
from stoatflow.serdes import SerdeLike

K = TypeVar("K")
V = TypeVar("V")
VO = TypeVar("VO")


@dataclass(frozen=True)
class Joined(Generic[K, V, VO]):
    """Of a stream with a table. `grace` (with a versioned table): how long records wait for late table records."""

    key: SerdeLike[K] | None = None
    value: SerdeLike[V] | None = None
    other: SerdeLike[VO] | None = None
    name: str | None = None
    grace: Duration | None = None


@dataclass(frozen=True)
class StreamJoined(Generic[K, V, VO]):
    """Of two streams. `store_name` is the base of the names of its stores; without one `name` is."""

    key: SerdeLike[K] | None = None
    value: SerdeLike[V] | None = None
    other: SerdeLike[VO] | None = None
    name: str | None = None
    store_name: str | None = None
    logging: bool = True


@dataclass(frozen=True, slots=True)
class TableJoined:
    """Of two tables by foreign key."""

    name: str | None = None
