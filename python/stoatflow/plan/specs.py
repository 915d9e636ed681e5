"""Parts of DSL calls that are plain data, equal in fields to those of the engine's `plan/src`.

Nodes hold them, and `encode` writes them without fields that equal their default. None holds a user's function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoatflow.expressions import Expression


@dataclass(frozen=True, slots=True, eq=False)
class Spec:
    """A part of a call that is plain data. Fields that equal their default are not encoded."""


@dataclass(frozen=True, slots=True, eq=False)
class IndexSpec(Spec):
    """A secondary index of a store."""

    name: str
    fields: tuple[Expression, ...]
    unique: bool = False
    each: bool = False
    storing: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class RocksDBSpec(Spec):
    """RocksDB options of a store."""

    compression: str | None = None
    block_size: int | None = None
    bloom_bits: int | None = None
    compaction: str | None = None
    cache_size: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ExpirySpec(Spec):
    """When rows of a table, or of a store of processors, expire."""

    ttl: Mapping[str, int] | Expression
    clock: str
    forward: bool


@dataclass(frozen=True, slots=True, eq=False)
class WindowSpec(Spec):
    """How records of a key are grouped into windows."""

    type: str
    size_ms: int | None = None
    advance_ms: int | None = None
    difference_ms: int | None = None
    gap_ms: int | None = None
    start_ms: int | None = None
    records: int | None = None
    grace_ms: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class JoinWindowSpec(Spec):
    """The window of a stream-stream join."""

    before_ms: int
    after_ms: int
    grace_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class UntilSpec(Spec):
    """How long updates are suppressed."""

    type: str
    grace_ms: int | None = None
    limit_ms: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PatienceSpec(Spec):
    """How long to wait for an answer, and how often to request it."""

    timeout_ms: int | None
    attempts: int
    first_ms: int
    most_ms: int
    jitter: float
    retry_timeouts: bool
    retry_errors: bool
