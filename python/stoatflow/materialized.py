"""Value objects that say how a source, a sink, a group or a table is read, written or kept.

Takes serdes and names, gives frozen data. Every one has plain keyword shortcuts on the methods that
take it, so that most programs never need them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from stoatflow.errors import TopologyError
from stoatflow.plan.nodes import StoreSpec
from stoatflow.serdes import SerdeLike, resolve

K = TypeVar("K")
V = TypeVar("V")

Reset: TypeAlias = Literal["earliest", "latest"]
"""Where a source starts without a committed position."""


@dataclass(frozen=True, slots=True)
class Consumed(Generic[K, V]):
    """How a source topic is read."""

    key: SerdeLike[K]
    value: SerdeLike[V]
    name: str | None = None
    reset: Reset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced(Generic[K, V]):
    """How a sink topic is written; a serde that is left out is the one the records came with."""

    key: SerdeLike[K] | None = None
    value: SerdeLike[V] | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped(Generic[K, V]):
    """How grouped records are written where they must be."""

    key: SerdeLike[K] | None = None
    value: SerdeLike[V] | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Materialized:
    """How a table is kept: `Materialized("orders", value=dict, logged=False)`."""

    store: str | None = None
    key: SerdeLike[Any] | None = None
    value: SerdeLike[Any] | None = None
    logged: bool = True


def optional_serde(serde: SerdeLike[Any] | None) -> Any:
    """Resolve a serde that may be left out."""
    return None if serde is None else resolve(serde)


def store_spec(
    store: str | Materialized | None,
    key: SerdeLike[Any] | None,
    value: SerdeLike[Any] | None,
    method: str,
    line: str,
) -> StoreSpec | None:
    """Give the plan's form of `store=`, `key=` and `value=`; raise `TopologyError` if they disagree."""
    if isinstance(store, Materialized):
        if key is not None or value is not None:
            raise TopologyError(
                f"{line} {method}: key= and value= are given beside a Materialized",
                next_step="give the serdes either to Materialized or to the method",
            )
        name, key, value, logged = store.store, store.key, store.value, store.logged
    else:
        name, logged = store, True
    if name is not None and (not isinstance(name, str) or not name):
        raise TopologyError(
            f"{line} {method}: store= must be a name or a Materialized, not {name!r}",
            next_step='write store="totals"',
        )
    if name is None and key is None and value is None and logged:
        return None
    return StoreSpec(name, optional_serde(key), optional_serde(value), logged)


def check_topic(topic: object, method: str, line: str) -> str:
    """Give a topic's name if it is one (Kafka's rule); raise `TopologyError` otherwise."""
    valid = (
        isinstance(topic, str)
        and 0 < len(topic) <= 249
        and topic not in (".", "..")
        and all((c.isascii() and c.isalnum()) or c in "._-" for c in topic)
    )
    if not isinstance(topic, str) or not valid:
        raise TopologyError(
            f"{line} {method}: {topic!r} is no topic name",
            next_step="use 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'",
        )
    return topic
