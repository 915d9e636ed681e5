"""Builds plan nodes from join calls: checks both sides and the arguments.

Takes handles and value objects, returns the node's fields. Which kind of join it is follows from the type of the other
side, never from the number of arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from stoatflow import expressions
from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression
from stoatflow.handlers import OnError, handler
from stoatflow.joined import Joined, StreamJoined, TableJoined
from stoatflow.materialized import Materialized, optional_serde, store_spec
from stoatflow.plan import Handle, nodes
from stoatflow.plan.builder import same_plan
from stoatflow.plan.functions import KEY_VALUE, VALUE, function, given
from stoatflow.windows import JoinWindows, span_ms

LEFT_RIGHT = ("left", "right")
KEY_LEFT_RIGHT = ("key", "left", "right")


def joiner_of(joiner: object, with_key: bool, method: str, line: str) -> nodes.Function:
    """Check a joiner: a function, or an expression of `sf.left`, `sf.right` and `sf.key`."""
    return function(joiner, KEY_LEFT_RIGHT if with_key else LEFT_RIGHT, method, line)


def gets_key(joiner: object, with_key: bool) -> bool:
    """Whether the joiner gets the key. An expression does if it reads the key."""
    return joiner.reads(expressions.key) if isinstance(joiner, Expression) else with_key


def with_stream(
    kind: type[nodes.Joining],
    left: Handle,
    right: Handle,
    joiner: Callable[..., Any] | Expression,
    window: object,
    joined: StreamJoined[Any, Any, Any] | None,
    with_key: bool,
    name: str | None,
    line: str,
    on_error: OnError | None = None,
) -> nodes.Joining:
    """Build the node of a join of two streams."""
    if not isinstance(window, JoinWindows):
        raise TopologyError(
            f"{line} {kind.op} of two streams needs JoinWindows, not {type(window).__name__}",
            next_step=f'write {kind.op}(other, joiner, JoinWindows("5m", grace="1m"))',
        )
    how = given(joined, StreamJoined, StreamJoined(), f"{kind.op}(joined=) of two streams", line)
    return kind(
        line=line,
        name=one_name(name, how.name, kind.op, line),
        on_error=handler(on_error, kind.op, line),
        parent=left._at,
        other=same_plan(left, right, line, kind.op),
        function=joiner_of(joiner, with_key, kind.op, line),
        with_key=gets_key(joiner, with_key),
        window=window.spec,
        key=optional_serde(how.key),
        value=optional_serde(how.value),
        other_value=optional_serde(how.other),
        store=how.store_name,
        logged=how.logging,
    )


def with_table(
    kind: type[nodes.Joining],
    left: Handle,
    right: Handle,
    joiner: Callable[..., Any] | Expression,
    joined: Joined[Any, Any, Any] | None,
    with_key: bool,
    name: str | None,
    line: str,
    on_error: OnError | None = None,
) -> nodes.Joining:
    """Build the node of a join of a stream with a table."""
    how = given(joined, Joined, Joined(), f"{kind.op}(joined=) with a table", line)
    return kind(
        line=line,
        name=one_name(name, how.name, kind.op, line),
        on_error=handler(on_error, kind.op, line),
        parent=left._at,
        other=same_plan(left, right, line, kind.op),
        function=joiner_of(joiner, with_key, kind.op, line),
        with_key=gets_key(joiner, with_key),
        key=optional_serde(how.key),
        value=optional_serde(how.value),
        other_value=optional_serde(how.other),
        grace_ms=None if how.grace is None else span_ms(how.grace, "Joined(grace=)"),
    )


def with_global(
    kind: type[nodes.Joining],
    left: Handle,
    right: Handle,
    key_fn: object,
    joiner: object,
    with_key: bool,
    name: str | None,
    line: str,
    on_error: OnError | None = None,
) -> nodes.Joining:
    """Build the node of a join of a stream with a global table."""
    return kind(
        line=line,
        name=name,
        on_error=handler(on_error, kind.op, line),
        parent=left._at,
        other=same_plan(left, right, line, kind.op),
        key_function=function(key_fn, KEY_VALUE, f"{kind.op}(key_fn)", line),
        function=joiner_of(joiner, with_key, kind.op, line),
        with_key=gets_key(joiner, with_key),
    )


def of_tables(
    kind: type[nodes.Joining],
    left: Handle,
    right: Handle,
    joiner: Callable[..., Any] | Expression,
    foreign_key: object,
    with_key: bool,
    table_joined: TableJoined | None,
    store: str | Materialized | None,
    key: Any,
    value: Any,
    name: str | None,
    line: str,
    on_error: OnError | None = None,
) -> nodes.Joining:
    """Build the node of a join of two tables, by key or by foreign key."""
    how = given(table_joined, TableJoined, TableJoined(), f"{kind.op}(table_joined=)", line)
    by_foreign = foreign_key is not None
    extractor = None
    if by_foreign:
        extractor = function(foreign_key, KEY_VALUE if with_key else VALUE, f"{kind.op}(foreign_key=)", line)
    elif table_joined is not None:
        raise TopologyError(
            f"{line} {kind.op}: table_joined= is for joins by foreign key", next_step="add foreign_key= or leave it out"
        )
    return kind(
        line=line,
        name=one_name(name, how.name, kind.op, line),
        on_error=handler(on_error, kind.op, line),
        parent=left._at,
        other=same_plan(left, right, line, kind.op),
        # With a foreign key, `with_key` is about the foreign key function.
        function=joiner_of(joiner, with_key and not by_foreign, kind.op, line),
        with_key=gets_key(joiner, with_key and not by_foreign),
        foreign_key=extractor,
        foreign_with_key=with_key and by_foreign,
        materialized=store_spec(store, key, value, kind.op, line),
    )


def one_name(name: str | None, other: str | None, method: str, line: str) -> str | None:
    """Return the name that was given in either of two places; raise `TopologyError` if both have one."""
    if name is not None and other is not None:
        raise TopologyError(
            f"{line} {method}: two names are given, {name!r} and {other!r}", next_step="give one of them"
        )
    return other if name is None else name


def _with_stream(
    kind: type[nodes.Joining], left: Handle, right: Handle, arguments: Any, options: Any, line: str
) -> nodes.Joining:
    def call(
        joiner: Any,
        window: Any,
        *,
        joined: Any = None,
        with_key: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> nodes.Joining:
        return with_stream(kind, left, right, joiner, window, joined, with_key, name, line, on_error)

    return _call(call, "(stream, joiner, window)", kind, arguments, options, line)


def _with_table(
    kind: type[nodes.Joining], left: Handle, right: Handle, arguments: Any, options: Any, line: str
) -> nodes.Joining:
    def call(
        joiner: Any,
        *,
        joined: Any = None,
        with_key: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> nodes.Joining:
        return with_table(kind, left, right, joiner, joined, with_key, name, line, on_error)

    return _call(call, "(table, joiner)", kind, arguments, options, line)


def _with_global(
    kind: type[nodes.Joining], left: Handle, right: Handle, arguments: Any, options: Any, line: str
) -> nodes.Joining:
    def call(
        key_fn: Any, joiner: Any, *, with_key: bool = False, name: str | None = None, on_error: OnError | None = None
    ) -> nodes.Joining:
        return with_global(kind, left, right, key_fn, joiner, with_key, name, line, on_error)

    return _call(call, "(table, key_fn, joiner)", kind, arguments, options, line)


def _call(
    call: Callable[..., nodes.Joining],
    shape: str,
    kind: type[nodes.Joining],
    arguments: tuple[Any, ...],
    options: dict[str, Any],
    line: str,
) -> nodes.Joining:
    try:
        bound = inspect.signature(call).bind(*arguments, **options)
    except TypeError as cause:
        raise TopologyError(
            f"{line} {kind.op}: {cause}", next_step=f"these two sides are joined with {kind.op}{shape}"
        ) from None
    return call(*bound.args, **bound.kwargs)


Shape: TypeAlias = Callable[[type[nodes.Joining], Handle, Handle, tuple[Any, ...], dict[str, Any], str], nodes.Joining]
"""Builds the node of a join with one kind of other side."""

STREAMS: Shape = _with_stream
STREAM_AND_TABLE: Shape = _with_table
STREAM_AND_GLOBAL_TABLE: Shape = _with_global
