"""Declarations of secondary indexes of stores.

`Index` is frozen data for `Materialized(indexes=...)` and `Stores`. The engine maintains the entries; `find` of a
read-only store uses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression
from stoatflow.plan.specs import IndexSpec

__all__ = ["Index", "index_specs"]


class Index:
    """A secondary index by one or several fields: `Index("by_city", sf.value["city"], sf.value["age"])`.

    With `unique=True` a row whose value another row has is an error. With `each=True` the field is a list, and the row
    is found by each of its elements. With `storing=` the entries also keep these values: a `find` with `select=` that
    reads only them, the fields and the key reads no rows.

    >>> builder = sf.StreamsBuilder()
    >>> kept = sf.Materialized("users", indexes=[sf.Index("by_name", sf.value)])
    >>> users = builder.table("users", key=str, value=str, store=kept)
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("users")
    ...     broker.produce("users", "u1", "Ann")
    ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
    ...         app.wait_until(caught_up=True)
    ...         print(app.store("users").find(sf.value == "Ann"))
    <1 rows by by_name: [('u1', 'Ann')]>
    """

    __slots__ = ("each", "fields", "name", "storing", "unique")

    name: str
    fields: tuple[Expression, ...]
    unique: bool
    each: bool
    storing: tuple[Expression, ...]

    def __init__(
        self,
        name: str,
        *fields: Expression,
        unique: bool = False,
        each: bool = False,
        storing: Expression | Sequence[Expression] = (),
    ) -> None:
        """Check what can be checked without the store."""
        if not isinstance(name, str):
            raise TypeError(f'Index(...) begins with its name: Index("by_city", sf.value["city"]), not {name!r}')
        stored = (storing,) if isinstance(storing, Expression) else tuple(storing)
        for field in (*fields, *stored):
            if not isinstance(field, Expression):
                raise TypeError(_no_field(name, field))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "fields", fields)
        object.__setattr__(self, "unique", bool(unique))
        object.__setattr__(self, "each", bool(each))
        object.__setattr__(self, "storing", stored)

    def __setattr__(self, name: str, value: object) -> None:
        """Raise an error: an index is immutable."""
        raise AttributeError(f"an Index doesn't change: make another one instead of setting {name!r}")

    def __repr__(self) -> str:
        """Show the source text that creates it."""
        options = "".join(f", {option}=True" for option in ("unique", "each") if getattr(self, option))
        if self.storing:
            options += f", storing=[{', '.join(repr(kept) for kept in self.storing)}]"
        return f"Index({self.name!r}, {', '.join(repr(field) for field in self.fields)}{options})"


def _no_field(index: str, field: object) -> str:
    given = f"Index({index!r}): a field is an expression such as sf.value['city'], not {field!r}"
    if not callable(field):
        return f"{given}. Next: write the field as an expression of sf.key, sf.value and sf.timestamp"
    return (
        f"{given}: the engine computes fields without Python, and can't notice that a function has changed. Next: "
        "write it as an expression, or put its result into the value with map_values(...) before the store, and "
        "index that"
    )


def index_specs(indexes: Iterable[Index], method: str, line: str) -> tuple[IndexSpec, ...]:
    """Return `indexes=` as plan data."""
    given = tuple(indexes)
    for index in given:
        if not isinstance(index, Index):
            raise TopologyError(
                f"{line} {method}: indexes= takes Index objects, not {index!r}",
                next_step='write indexes=[sf.Index("by_city", sf.value["city"])]',
            )
    return tuple(IndexSpec(index.name, index.fields, index.unique, index.each, index.storing) for index in given)
