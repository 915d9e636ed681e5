"""A table that is read completely before other input, and is looked up by any key."""

from __future__ import annotations

from typing import Generic, TypeVar

from stoatflow.plan import Handle, nodes

K = TypeVar("K")
V = TypeVar("V")


class GlobalKTable(Handle, Generic[K, V]):
    """The result of `builder.global_table`: the other side of `KStream.join(table, key_fn, joiner)`.

    >>> builder = sf.StreamsBuilder()
    >>> places = builder.global_table("places", key=int, value=str, store="places")
    >>> builder.stream("orders", key=str, value=int).join(places, sf.value, lambda order, place: place).print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("places", int, str).pipe(7, "Oslo")
    ...     driver.input("orders", str, int).pipe("o1", 7)
    [join]: o1, Oslo
    """

    __slots__ = ()

    @property
    def queryable_store_name(self) -> str | None:
        """The name of its store, if one was given.

        >>> places = sf.StreamsBuilder().global_table("places", key=str, value=str, store="places")
        >>> places.queryable_store_name
        'places'
        """
        kept = getattr(self._plan.snapshot()[self._at], "materialized", None)
        return kept.store if isinstance(kept, nodes.StoreSpec) else None
