"""Secondary indexes of stores: how they are declared.

`Index` is frozen data that `Materialized(indexes=...)` and `Stores` take. The engine keeps the entries; `find` of a
store that is read from outside uses them.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression
from stoatflow.plan.specs import IndexSpec

__all__ = ["Index", "index_specs"]


class Index:
    """An order of a store's rows by one field or several: `Index("by_city", sf.value["city"], sf.value["age"])`.

    `unique=True` keeps rows apart: one whose value another row has fails. `each=True` takes a list, of which each
    element leads to the row.

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

    __slots__ = ("each", "fields", "name", "unique")

    name: str
    fields: tuple[Expression, ...]
    unique: bool
    each: bool

    def __init__(self, name: str, *fields: Expression, unique: bool = False, each: bool = False) -> None:
        """Check what can be checked without the store."""
        if not isinstance(name, str):
            raise TypeError(f'Index(...) begins with its name: Index("by_city", sf.value["city"]), not {name!r}')
        for field in fields:
            if not isinstance(field, Expression):
                raise TypeError(
                    f"Index({name!r}): a field is an expression such as sf.value['city'], not {field!r}. "
                    "The engine reads it of each row that changes, so a function can't be one"
                )
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "fields", fields)
        object.__setattr__(self, "unique", bool(unique))
        object.__setattr__(self, "each", bool(each))

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: an index doesn't change."""
        raise AttributeError(f"an Index doesn't change: make another one instead of setting {name!r}")

    def __repr__(self) -> str:
        """Show it as it was written."""
        options = "".join(f", {option}=True" for option in ("unique", "each") if getattr(self, option))
        return f"Index({self.name!r}, {', '.join(repr(field) for field in self.fields)}{options})"


def index_specs(indexes: Iterable[Index], method: str, line: str) -> tuple[IndexSpec, ...]:
    """Return the plan's form of `indexes=`."""
    given = tuple(indexes)
    for index in given:
        if not isinstance(index, Index):
            raise TopologyError(
                f"{line} {method}: indexes= takes Index objects, not {index!r}",
                next_step='write indexes=[sf.Index("by_city", sf.value["city"])]',
            )
    return tuple(IndexSpec(index.name, index.fields, index.unique, index.each) for index in given)
