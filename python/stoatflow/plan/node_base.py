"""The base class of plan nodes, and the types of their fields: functions, stores, timestamps, watermarks.

Equal in fields to the engine's `plan/src/logical.rs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from stoatflow.aggregations import Aggregation
from stoatflow.expressions import Expression
from stoatflow.plan.specs import ExpirySpec, IndexSpec, RocksDBSpec, Spec
from stoatflow.serdes import Serde

if TYPE_CHECKING:
    from stoatflow.handlers import ErrorHandler


@dataclass(frozen=True, slots=True, eq=False)
class Udf:
    """A user's function, with its name for messages (`app.py:12 is_large`)."""

    call: Callable[..., Any]
    display: str


Function: TypeAlias = Udf | Expression | Aggregation[Any]


@dataclass(frozen=True, slots=True, eq=False)
class ProcessorRef:
    """A user's supplier of processors, with its name for messages (`app.py:12 Enrich`)."""

    supplier: Callable[[], Any]
    display: str
    on_timer: bool = False
    """Whether it has `on_timer`."""


@dataclass(frozen=True, slots=True, eq=False)
class StoreSpec(Spec):
    """How a table is stored."""

    store: str | None = None
    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    logged: bool = True
    cached: bool = True
    retention_ms: int | None = None
    history_ms: int | None = None
    expiry: ExpirySpec | None = None
    in_memory: bool = False
    topic: Mapping[str, str] = field(default_factory=dict)
    indexes: tuple[IndexSpec, ...] = ()
    rocksdb: RocksDBSpec | None = None


@dataclass(frozen=True, slots=True, eq=False)
class StoreKindSpec(Spec):
    """The type of a store, with its retention, window size and history."""

    type: str
    retention_ms: int | None = None
    size_ms: int | None = None
    history_ms: int | None = None
    duplicates: bool = False
    timestamped: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TimestampFunction:
    """A user's timestamp extractor."""

    udf: Udf


Timestamps: TypeAlias = TimestampFunction | Expression | str


@dataclass(frozen=True, slots=True, eq=False)
class WatermarkSpec(Spec):
    """How the watermark of a source is computed: by a function, a named strategy, or a named strategy with a number."""

    strategy: object
    idle_ms: int | None = None
    group: str | None = None
    max_drift_ms: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class LateFunction:
    """A user's function for late records, and the dead-letter topics that it may name."""

    udf: Udf
    topics: tuple[str, ...] = ()


Late: TypeAlias = "LateFunction | ErrorHandler | str"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Node:
    """A DSL call: its line, and the name that the user gave it."""

    op: ClassVar[str]
    line: str | None
    name: str | None = None
    on_error: ErrorHandler | None = None
