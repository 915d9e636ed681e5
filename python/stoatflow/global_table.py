"""A table that is complete before anything else is read, and is looked up by any key."""

from __future__ import annotations

from typing import Generic, TypeVar

from stoatflow.plan import Handle, nodes

K = TypeVar("K")
V = TypeVar("V")


class GlobalKTable(Handle, Generic[K, V]):
    """What `builder.global_table` gives: the other side of `KStream.join(table, key_fn, joiner)`."""

    __slots__ = ()

    @property
    def queryable_store_name(self) -> str | None:
        """The name of its store, if it was given one."""
        kept = getattr(self._plan.snapshot()[self._at], "materialized", None)
        return kept.store if isinstance(kept, nodes.StoreSpec) else None
