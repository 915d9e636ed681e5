"""Parts of DSL calls that are data themselves, equal in fields to those of the engine's `plan/src`.

Nodes hold them, and `encode` writes them: what equals its default is left out. None holds a function of the user.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoatflow.expressions import Expression


@dataclass(frozen=True, slots=True, eq=False)
class Spec:
    """A part of a call that is data itself. What equals its default is not written."""


@dataclass(frozen=True, slots=True, eq=False)
class IndexSpec(Spec):
    """A secondary index of a store."""

    name: str
    fields: tuple[Expression, ...]
    unique: bool = False
    each: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class RocksDBSpec(Spec):
    """How RocksDB keeps a store."""

    compression: str | None = None
    block_size: int | None = None
    bloom_bits: int | None = None
    compaction: str | None = None
    cache_size: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ExpirySpec(Spec):
    """When rows of a table expire."""

    ttl: Mapping[str, int] | Expression
    clock: str
    forward: bool


@dataclass(frozen=True, slots=True, eq=False)
class WindowSpec(Spec):
    """How records of a key are put into windows."""

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
    """How long updates are held back."""

    type: str
    grace_ms: int | None = None
    limit_ms: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PatienceSpec(Spec):
    """How long an answer is waited for, and how often it is asked for."""

    timeout_ms: int | None
    attempts: int
    first_ms: int
    most_ms: int
    jitter: float
    retry_timeouts: bool
    retry_errors: bool
