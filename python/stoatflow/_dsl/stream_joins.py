"""Joins of a stream: with another stream, a table, or a global table.

Takes the other side and a joiner, adds a node, returns the stream of joined records. Which kind of join it is follows
from the type of the other side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from stoatflow._dsl import joins
from stoatflow._dsl.signatures import shown_as
from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression
from stoatflow.global_table import GlobalKTable
from stoatflow.handlers import OnError
from stoatflow.joined import Joined, StreamJoined
from stoatflow.plan import Handle, nodes
from stoatflow.plan.functions import user_line
from stoatflow.table import KTable
from stoatflow.windows import JoinWindows

if TYPE_CHECKING:
    from stoatflow.stream import KStream

K = TypeVar("K")
V = TypeVar("V")
VO = TypeVar("VO")
KO = TypeVar("KO")
R = TypeVar("R")


def _shown(  # type: ignore[empty-body]  # never called
    self: KStream[K, V],
    other: KStream[K, VO] | KTable[K, VO] | GlobalKTable[KO, VO],
    joiner: Callable[..., R] | Expression,
    window: JoinWindows | None = None,
    *,
    key_fn: Callable[[K, V], KO] | Expression | None = None,
    joined: StreamJoined[K, V, VO] | Joined[K, V, VO] | None = None,
    with_key: bool = False,
    name: str | None = None,
    on_error: OnError | None = None,
) -> KStream[K, R]:
    """Signature of joins for `help()`: the type of `other` decides which parameters apply, and their order."""


def _shown_outer(  # type: ignore[empty-body]  # never called
    self: KStream[K, V],
    other: KStream[K, VO],
    joiner: Callable[..., R] | Expression,
    window: JoinWindows,
    *,
    joined: StreamJoined[K, V, VO] | None = None,
    with_key: bool = False,
    name: str | None = None,
    on_error: OnError | None = None,
) -> KStream[K, R]:
    """Signature of outer joins for `help()`."""


class StreamJoins(Handle, Generic[K, V]):
    """The joins of a stream."""

    __slots__ = ()

    @overload
    def join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[V, VO], R],
        window: JoinWindows,
        *,
        joined: StreamJoined[K, V, VO] | None = ...,
        with_key: Literal[False] = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: KStream[K, VO],
        joiner: Expression,
        window: JoinWindows,
        *,
        joined: StreamJoined[K, V, VO] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, Any]: ...
    @overload
    def join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[K, V, VO], R],
        window: JoinWindows,
        *,
        joined: StreamJoined[K, V, VO] | None = ...,
        with_key: Literal[True],
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO], R],
        *,
        joined: Joined[K, V, VO] | None = ...,
        with_key: Literal[False] = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Expression,
        *,
        joined: Joined[K, V, VO] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, Any]: ...
    @overload
    def join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[K, V, VO], R],
        *,
        joined: Joined[K, V, VO] | None = ...,
        with_key: Literal[True],
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[KO, VO],
        key_fn: Callable[[K, V], KO] | Expression,
        joiner: Callable[[V, VO], R],
        *,
        with_key: Literal[False] = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, R]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[KO, VO],
        key_fn: Callable[[K, V], KO] | Expression,
        joiner: Expression,
        *,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, Any]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[KO, VO],
        key_fn: Callable[[K, V], KO] | Expression,
        joiner: Callable[[K, V, VO], R],
        *,
        with_key: Literal[True],
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, R]: ...
    @shown_as(_shown)
    def join(self, other: Handle, *arguments: Any, **options: Any) -> KStream[Any, Any]:
        """Join with another stream or table; each pair of matching records yields `joiner(left, right)`.

        With another stream: `(stream, joiner, JoinWindows(...))`; with a table: `(table, joiner)`; with a global table:
        `(table, key_fn, joiner)`. With `with_key=True` the joiner gets the key first.

        >>> builder = sf.StreamsBuilder()
        >>> orders = builder.stream("orders", key=str, value=int)
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> orders.join(users, lambda order, name: f"{name} ordered {order}").print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("users", str, str).pipe("u1", "Ann")
        ...     driver.input("orders", str, int).pipe_all([("u1", 30), ("u2", 40)])
        [join]: u1, Ann ordered 30
        """
        return self._joined(nodes.Join, other, arguments, options)

    @overload
    def left_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[V, VO | None], R],
        window: JoinWindows,
        *,
        joined: StreamJoined[K, V, VO] | None = ...,
        with_key: Literal[False] = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: KStream[K, VO],
        joiner: Expression,
        window: JoinWindows,
        *,
        joined: StreamJoined[K, V, VO] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, Any]: ...
    @overload
    def left_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[K, V, VO | None], R],
        window: JoinWindows,
        *,
        joined: StreamJoined[K, V, VO] | None = ...,
        with_key: Literal[True],
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[V, VO | None], R],
        *,
        joined: Joined[K, V, VO] | None = ...,
        with_key: Literal[False] = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Expression,
        *,
        joined: Joined[K, V, VO] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, Any]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, VO],
        joiner: Callable[[K, V, VO | None], R],
        *,
        joined: Joined[K, V, VO] | None = ...,
        with_key: Literal[True],
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[KO, VO],
        key_fn: Callable[[K, V], KO] | Expression,
        joiner: Callable[[V, VO | None], R],
        *,
        with_key: Literal[False] = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, R]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[KO, VO],
        key_fn: Callable[[K, V], KO] | Expression,
        joiner: Expression,
        *,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, Any]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[KO, VO],
        key_fn: Callable[[K, V], KO] | Expression,
        joiner: Callable[[K, V, VO | None], R],
        *,
        with_key: Literal[True],
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, R]: ...
    @shown_as(_shown)
    def left_join(self, other: Handle, *arguments: Any, **options: Any) -> KStream[Any, Any]:
        """Join as `join` does; records of this stream without a match are joined with `None` on the right.

        With another stream: `(stream, joiner, JoinWindows(...))`; with a table: `(table, joiner)`; with a global table:
        `(table, key_fn, joiner)`. With `with_key=True` the joiner gets the key first.

        >>> builder = sf.StreamsBuilder()
        >>> orders = builder.stream("orders", key=str, value=int)
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> orders.left_join(users, lambda order, name: f"{name or 'nobody'} ordered {order}").print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("users", str, str).pipe("u1", "Ann")
        ...     driver.input("orders", str, int).pipe_all([("u1", 30), ("u2", 40)])
        [left_join]: u1, Ann ordered 30
        [left_join]: u2, nobody ordered 40
        """
        return self._joined(nodes.LeftJoin, other, arguments, options)

    @overload
    def outer_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[V | None, VO | None], R],
        window: JoinWindows,
        *,
        joined: StreamJoined[K, V, VO] | None = ...,
        with_key: Literal[False] = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, R]: ...
    @overload
    def outer_join(
        self,
        other: KStream[K, VO],
        joiner: Expression,
        window: JoinWindows,
        *,
        joined: StreamJoined[K, V, VO] | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, Any]: ...
    @overload
    def outer_join(
        self,
        other: KStream[K, VO],
        joiner: Callable[[K, V | None, VO | None], R],
        window: JoinWindows,
        *,
        joined: StreamJoined[K, V, VO] | None = ...,
        with_key: Literal[True],
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, R]: ...
    @shown_as(_shown_outer)
    def outer_join(self, other: Handle, *arguments: Any, **options: Any) -> KStream[Any, Any]:
        """Join as `left_join` does; records of the other stream without a match are joined with `None` on the left.

        >>> builder = sf.StreamsBuilder()
        >>> left, right = (builder.stream(topic, key=str, value=int) for topic in ("left", "right"))
        >>> window = sf.JoinWindows("5s", grace="0s")
        >>> left.outer_join(right, lambda one, other: (one, other), window, name="both").print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("right", str, int).pipe("a", 1, timestamp=0)
        ...     driver.input("left", str, int).pipe("b", 2, timestamp=60_000)
        [both]: a, (None, 1)
        """
        return self._joined(nodes.OuterJoin, other, arguments, options)

    def _joined(
        self, kind: type[nodes.Joining], other: Handle, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> KStream[Any, Any]:
        # Imported here: `KStream` inherits from this class.
        from stoatflow.stream import KStream

        line = user_line()
        shapes: dict[type, joins.Shape] = {
            KStream: joins.STREAMS,
            KTable: joins.STREAM_AND_TABLE,
            GlobalKTable: joins.STREAM_AND_GLOBAL_TABLE,
        }
        given = shapes.get(type(other))
        if given is None or (kind is nodes.OuterJoin and given is not joins.STREAMS):
            raise TopologyError(
                f"{line} {kind.op} of a stream does not go with {type(other).__name__}",
                next_step="outer_join needs a KStream" if given else "pass a KStream, a KTable or a GlobalKTable",
            )
        return KStream(self._plan, self._plan.add(given(kind, self, other, arguments, options, line)))
