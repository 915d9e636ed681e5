"""Queries that find rows by their content, and their results.

Takes expressions, returns the query in the engine's form, and pages of rows. The engine decides how rows are found, and
every page reports it.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar, overload

from stoatflow.errors import ConfigError
from stoatflow.expressions import Expression

__all__ = ["Descending", "Found", "OrderBy", "QueryPlan", "Select", "desc", "query"]

T = TypeVar("T")


class Descending(NamedTuple):
    """An expression to order by, from the largest to the smallest. Created by `desc`.

    >>> sf.desc(sf.value["age"]).expression
    sf.value['age']
    """

    expression: Expression


def desc(expression: Expression) -> Descending:
    """Order by this, from the largest to the smallest: `order_by=[sf.value["city"], sf.desc(sf.value["age"])]`.

    >>> sf.desc(sf.value["age"])
    Descending(expression=sf.value['age'])
    """
    if not isinstance(expression, Expression):
        raise TypeError(f"desc() takes an expression such as sf.value['age'], not {expression!r}")
    return Descending(expression)


OrderBy: TypeAlias = "Expression | Descending | Iterable[Expression | Descending]"
"""Type of `find(order_by=)`."""
Select: TypeAlias = "Expression | Mapping[str, Expression] | Iterable[Expression]"
"""Type of `find(select=)`: a mapping returns dicts, several expressions tuples, one expression its value."""


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """How rows are found.

    >>> builder = sf.StreamsBuilder()
    >>> users = builder.table("users", key=str, value=str, store="users")
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("users")
    ...     broker.produce("users", "u1", "Ann")
    ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
    ...         app.wait_until(caught_up=True)
    ...         print(app.store("users").explain(sf.key == "u1"))
    QueryPlan(way='keys', index=None, ranges=1, sorted=False, covering=False, rows_read=0, unreadable=0)
    """

    way: str
    """`keys`, `key_range`, `index` or `scan`."""
    index: str | None
    """Name of the index, if one is used."""
    ranges: int
    """Number of ranges of keys or of the index that are read."""
    sorted: bool
    """Whether rows are sorted, because they are not read in the requested order."""
    covering: bool
    """Whether the entries of the index contain all that the query reads, so that no row is read."""
    rows_read: int
    """Number of rows read, or of entries of a covering index (0 before a run)."""
    unreadable: int
    """Number of rows skipped because they can't be decoded or the condition can't be computed for them."""


class Found(Sequence[T], Generic[T]):
    """A page of rows.

    >>> builder = sf.StreamsBuilder()
    >>> users = builder.table("users", key=str, value=str, store="users")
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("users")
    ...     broker.produce("users", "u1", "Ann")
    ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
    ...         app.wait_until(caught_up=True)
    ...         print(app.store("users").find(sf.value == "Ann", allow_scan=True))
    <1 rows by scan: [('u1', 'Ann')]>
    """

    def __init__(
        self, rows: list[T], cursor: str | None, plan: QueryPlan, table: Callable[[], Any] | None = None
    ) -> None:
        """Created by `find`."""
        self._rows = rows
        self._table = table
        self.cursor = cursor
        """Where the next page begins, for `find(cursor=)`; `None` on the last page."""
        self.plan = plan
        """How the rows were found."""

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> list[T]: ...
    def __getitem__(self, at: int | slice) -> T | list[T]:
        """Return a row, or a slice of rows."""
        return self._rows[at]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        """Compare the rows with those of a page or a list."""
        return self._rows == (other._rows if isinstance(other, Found) else other)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # like a list

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as columns, those of `to_arrow` or of `select`, for pyarrow, Polars, pandas and DuckDB."""
        if self._table is None:
            raise AttributeError("these rows are no columns")
        return self._table().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        """Show the rows."""
        return f"<{len(self._rows)} rows by {self.plan.index or self.plan.way}: {self._rows!r}>"


def query(
    where: Expression | None,
    order_by: OrderBy | None,
    limit: int | None,
    select: Select | None,
    allow_scan: bool,
) -> tuple[bytes, Callable[[Any], Any] | None]:
    """Return the query in the engine's form, and a function that converts selected values for the caller."""
    exprs, show = _selected(select)
    asked: dict[str, object] = {"allow_scan": bool(allow_scan)}
    if where is not None:
        asked["where"] = _expression(where, "where").to_plan()
    if order_by is not None:
        several = [order_by] if isinstance(order_by, Expression | Descending) else order_by
        asked["order_by"] = [_order(by) for by in several]
    if limit is not None:
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise ConfigError(f"limit={limit!r} is no number of rows", next_step="give at least 1, or leave it out")
        asked["limit"] = limit
    if select is not None:
        if not exprs:
            raise ConfigError("select= names nothing", next_step="give expressions, or leave it out")
        asked["select"] = {"exprs": [expr.to_plan() for expr in exprs]}
    return json.dumps(asked, ensure_ascii=False, allow_nan=False).encode(), show


def _order(by: object) -> dict[str, object]:
    if isinstance(by, Descending):
        return {"expr": by.expression.to_plan(), "down": True}
    return {"expr": _expression(by, "order_by").to_plan()}


def _selected(select: Select | None) -> tuple[list[Expression], Callable[[Any], Any] | None]:
    if select is None:
        return [], None
    if isinstance(select, Expression):
        return [select], lambda row: row[0]
    if isinstance(select, Mapping):
        names = list(select)
        exprs = [_expression(expr, "select") for expr in select.values()]
        return exprs, lambda row: dict(zip(names, row, strict=True))
    return [_expression(expr, "select") for expr in select], tuple


def _expression(given: object, argument: str) -> Expression:
    if not isinstance(given, Expression):
        raise ConfigError(
            f"find({argument}=) takes expressions such as sf.value['city'] == 'Oslo', not {given!r}",
            next_step="write a condition with sf.key and sf.value; a function can be applied to the rows found",
        )
    return given


def selected_table(select: Select, rows: Sequence[Any]) -> Any:
    """Return the selected values as a `pyarrow.Table`."""
    from stoatflow import arrow  # needed only for columns
    from stoatflow._runtime import columns

    pa = arrow.load(arrow.Caller("__arrow_c_stream__", ConfigError))
    if isinstance(select, Mapping):
        return columns.records(pa, rows, list(select))
    if isinstance(select, Expression):
        return columns.records(pa, [{columns.VALUE: row} for row in rows], [columns.VALUE])
    names = [f"column_{at}" for at in range(len(rows[0]) if rows else 0)]
    return columns.records(pa, [dict(zip(names, row, strict=True)) for row in rows], names)


def read_cursor(cursor: str | None) -> bytes | None:
    """Decode the text of a cursor to the engine's form."""
    if cursor is None:
        return None
    try:
        return base64.b64decode(cursor, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        raise ConfigError(
            f"{cursor!r} is no cursor of find()", next_step="give page.cursor of the page before"
        ) from error


def shown_cursor(cursor: bytes | None) -> str | None:
    """Return the text of a cursor."""
    return None if cursor is None else base64.urlsafe_b64encode(cursor).decode()
