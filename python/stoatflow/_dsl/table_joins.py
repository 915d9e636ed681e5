"""Joins of a table with another table, by key or by foreign key.

Takes the other table and a joiner, adds a node, returns the table of joined rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from stoatflow._dsl import joins
from stoatflow._dsl.signatures import shown_without
from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression
from stoatflow.handlers import OnError
from stoatflow.joined import TableJoined
from stoatflow.materialized import Materialized
from stoatflow.plan import Handle, nodes
from stoatflow.plan.functions import user_line
from stoatflow.serdes import SerdeLike

if TYPE_CHECKING:
    from stoatflow.table import KTable

K = TypeVar("K")
V = TypeVar("V")
VO = TypeVar("VO")
KO = TypeVar("KO")
R = TypeVar("R")


class TableJoins(Handle, Generic[K, V]):
    """The joins of a table."""

    __slots__ = ()

    def _of(self, node: nodes.Node) -> KTable[Any, Any]:
        from stoatflow.table import KTable  # this class is a part of it

        return KTable(self._plan, self._plan.add(node))

    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO], R],
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[R] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: Literal[False] = ...,
    ) -> KTable[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Expression,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[Any] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[K, Any]: ...
    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[K, V, VO], R],
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[R] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: Literal[True],
    ) -> KTable[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[KO, VO],
        joiner: Callable[[V, VO], R],
        *,
        foreign_key: Callable[[V], KO | None] | Expression,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[R] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: Literal[False] = ...,
        table_joined: TableJoined | None = ...,
    ) -> KTable[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[KO, VO],
        joiner: Expression,
        *,
        foreign_key: Callable[..., KO | None] | Expression,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[Any] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: bool = ...,
        table_joined: TableJoined | None = ...,
    ) -> KTable[K, Any]: ...
    @overload
    def join(
        self,
        other: KTable[KO, VO],
        joiner: Callable[[V, VO], R],
        *,
        foreign_key: Callable[[K, V], KO | None] | Expression,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[R] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: Literal[True],
        table_joined: TableJoined | None = ...,
    ) -> KTable[K, R]: ...
    @shown_without("more")
    def join(
        self,
        other: KTable[KO, VO],
        joiner: Callable[..., R] | Expression,
        *more: object,
        foreign_key: Callable[..., KO | None] | Expression | None = None,
        store: str | Materialized | None = None,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
        with_key: bool = False,
        table_joined: TableJoined | None = None,
    ) -> KTable[K, R]:
        """Join with another table; each key that both tables have yields `joiner(left, right)`.

        With `foreign_key(value)` (or `(key, value)` with `with_key=True`) a row is joined with the other table's row of
        that key.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=dict, store="users")
        >>> cities = builder.table("cities", key=str, value=str, store="cities")
        >>> joiner = sf.concat(sf.left["name"], ", ", sf.right)
        >>> users.join(cities, joiner, foreign_key=sf.value["city"], name="homes", value=str).to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("cities", str, str).pipe("osl", "Oslo")
        ...     driver.input("users", str, dict).pipe("u1", {"name": "Ann", "city": "osl"})
        [to_stream]: u1, Ann, Oslo
        """
        line = user_line()
        _no_window(more, "join", line)
        node = joins.of_tables(
            nodes.Join,
            self,
            _table(other, "join", line),
            joiner,
            foreign_key,
            with_key,
            table_joined,
            store,
            key,
            value,
            name,
            line,
            on_error,
        )
        return self._of(node)

    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO | None], R],
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[R] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: Literal[False] = ...,
    ) -> KTable[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Expression,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[Any] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[K, Any]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[K, V, VO | None], R],
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[R] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: Literal[True],
    ) -> KTable[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[KO, VO],
        joiner: Callable[[V, VO | None], R],
        *,
        foreign_key: Callable[[V], KO | None] | Expression,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[R] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: Literal[False] = ...,
        table_joined: TableJoined | None = ...,
    ) -> KTable[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[KO, VO],
        joiner: Expression,
        *,
        foreign_key: Callable[..., KO | None] | Expression,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[Any] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: bool = ...,
        table_joined: TableJoined | None = ...,
    ) -> KTable[K, Any]: ...
    @overload
    def left_join(
        self,
        other: KTable[KO, VO],
        joiner: Callable[[V, VO | None], R],
        *,
        foreign_key: Callable[[K, V], KO | None] | Expression,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[R] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: Literal[True],
        table_joined: TableJoined | None = ...,
    ) -> KTable[K, R]: ...
    @shown_without("more")
    def left_join(
        self,
        other: KTable[KO, VO],
        joiner: Callable[..., R] | Expression,
        *more: object,
        foreign_key: Callable[..., KO | None] | Expression | None = None,
        store: str | Materialized | None = None,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
        with_key: bool = False,
        table_joined: TableJoined | None = None,
    ) -> KTable[K, R]:
        """Join as `join` does; keys that only this table has are joined with `None` on the right.

        With `foreign_key(value)` (or `(key, value)` with `with_key=True`) a row is joined with the other table's row of
        that key.

        >>> builder = sf.StreamsBuilder()
        >>> names, cities = (builder.table(topic, key=str, value=str, store=topic) for topic in ("names", "cities"))
        >>> names.left_join(cities, lambda name, city: f"{name}, {city or 'somewhere'}").to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("names", str, str).pipe("u1", "Ann")
        ...     driver.input("cities", str, str).pipe("u1", "Oslo")
        [to_stream]: u1, Ann, somewhere
        [to_stream]: u1, Ann, Oslo
        """
        line = user_line()
        _no_window(more, "left_join", line)
        node = joins.of_tables(
            nodes.LeftJoin,
            self,
            _table(other, "left_join", line),
            joiner,
            foreign_key,
            with_key,
            table_joined,
            store,
            key,
            value,
            name,
            line,
            on_error,
        )
        return self._of(node)

    @overload
    def outer_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V | None, VO | None], R],
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[R] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: Literal[False] = ...,
    ) -> KTable[K, R]: ...
    @overload
    def outer_join(
        self,
        other: KTable[K, VO],
        joiner: Expression,
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[Any] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KTable[K, Any]: ...
    @overload
    def outer_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[K, V | None, VO | None], R],
        *,
        store: str | Materialized | None = ...,
        key: SerdeLike[K] | None = ...,
        value: SerdeLike[R] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        with_key: Literal[True],
    ) -> KTable[K, R]: ...
    @shown_without("more")
    def outer_join(
        self,
        other: KTable[KO, VO],
        joiner: Callable[..., R] | Expression,
        *more: object,
        store: str | Materialized | None = None,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
        with_key: bool = False,
    ) -> KTable[K, R]:
        """Join as `left_join` does; keys that only the other table has are joined with `None` on the left.

        >>> builder = sf.StreamsBuilder()
        >>> names, cities = (builder.table(topic, key=str, value=str, store=topic) for topic in ("names", "cities"))
        >>> names.outer_join(cities, lambda name, city: (name, city)).to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("cities", str, str).pipe("u1", "Oslo")
        ...     driver.input("names", str, str).pipe("u1", "Ann")
        [to_stream]: u1, (None, 'Oslo')
        [to_stream]: u1, ('Ann', 'Oslo')
        """
        line = user_line()
        _no_window(more, "outer_join", line)
        node = joins.of_tables(
            nodes.OuterJoin,
            self,
            _table(other, "outer_join", line),
            joiner,
            None,
            with_key,
            None,
            store,
            key,
            value,
            name,
            line,
            on_error,
        )
        return self._of(node)


def _table(other: object, method: str, line: str) -> Handle:
    from stoatflow.table import KTable  # this class is a part of it

    if not isinstance(other, KTable):
        raise TopologyError(
            f"{line} {method} of a table needs another table, not {type(other).__name__}",
            next_step="turn a stream into a table with .to_table(), or begin the join with the stream",
        )
    return other


def _no_window(more: tuple[object, ...], method: str, line: str) -> None:
    if not more:
        return
    window = any(type(one).__name__ == "JoinWindows" for one in more)
    raise TopologyError(
        f"{line} {method}: a table meets a table, which has no window"
        if window
        else f"{line} {method} takes a table and a joiner, and was given {len(more)} more without a name",
        next_step="leave the window out, or join streams: table.to_stream()"
        if window
        else "name the others: store=, key=, value=, name=",
    )
