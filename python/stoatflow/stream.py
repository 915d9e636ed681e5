"""A stream of records and what can be done with it.

Takes functions or native expressions, adds nodes, gives new handles. `(key, value)` callbacks and
`(value)` callbacks are told apart by the method, never by the function's arity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Literal, TypeVar, overload

from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression
from stoatflow.grouped import KGroupedStream
from stoatflow.materialized import Grouped, Produced, check_topic, optional_serde
from stoatflow.plan import Handle, nodes
from stoatflow.plan.builder import same_plan
from stoatflow.plan.functions import KEY_VALUE, VALUE, callable_only, function, user_line
from stoatflow.serdes import SerdeLike

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


class KStream(Handle, Generic[K, V]):
    """A stream of records: each one stands for itself."""

    __slots__ = ()

    def _then(self, node: nodes.Node) -> KStream[Any, Any]:
        return KStream(self._plan, self._plan.add(node))

    def filter(self, predicate: Callable[[K, V], object] | Expression, *, name: str | None = None) -> KStream[K, V]:
        """Keep records for which `predicate(key, value)` holds. It gets null values too."""
        line = user_line()
        fn = function(predicate, KEY_VALUE, "filter", line)
        return self._then(nodes.Filter(line=line, name=name, parent=self._at, function=fn))

    def filter_not(self, predicate: Callable[[K, V], object] | Expression, *, name: str | None = None) -> KStream[K, V]:
        """Drop records for which `predicate(key, value)` holds."""
        line = user_line()
        fn = function(predicate, KEY_VALUE, "filter_not", line)
        return self._then(nodes.FilterNot(line=line, name=name, parent=self._at, function=fn))

    def map(self, fn: Callable[[K, V], tuple[K2, V2]], *, name: str | None = None) -> KStream[K2, V2]:
        """Give another `(key, value)` for each `fn(key, value)`. Where the key stays, use `map_values`."""
        line = user_line()
        udf = callable_only(fn, KEY_VALUE, "map", line, "write select_key(key).map_values(value) with two expressions")
        return self._then(nodes.Map(line=line, name=name, parent=self._at, function=udf))

    @overload
    def map_values(self, fn: Expression, *, name: str | None = ...) -> KStream[K, Any]: ...
    @overload
    def map_values(
        self, fn: Callable[[K, V], V2], *, with_key: Literal[True], name: str | None = ...
    ) -> KStream[K, V2]: ...
    @overload
    def map_values(
        self, fn: Callable[[V], V2], *, with_key: Literal[False] = ..., name: str | None = ...
    ) -> KStream[K, V2]: ...
    def map_values(
        self, fn: Callable[..., Any] | Expression, *, with_key: bool = False, name: str | None = None
    ) -> KStream[Any, Any]:
        """Give another value for each `fn(value)`, or `fn(key, value)` with `with_key=True`."""
        line = user_line()
        checked = function(fn, KEY_VALUE if with_key else VALUE, "map_values", line)
        return self._then(nodes.MapValues(line=line, name=name, parent=self._at, function=checked, with_key=with_key))

    def flat_map(self, fn: Callable[[K, V], Iterable[tuple[K2, V2]]], *, name: str | None = None) -> KStream[K2, V2]:
        """Give any number of `(key, value)` pairs for each `fn(key, value)`."""
        line = user_line()
        udf = callable_only(
            fn, KEY_VALUE, "flat_map", line, "write flat_map_values(values).select_key(key) with two expressions"
        )
        return self._then(nodes.FlatMap(line=line, name=name, parent=self._at, function=udf))

    @overload
    def flat_map_values(self, fn: Expression, *, name: str | None = ...) -> KStream[K, Any]: ...
    @overload
    def flat_map_values(
        self, fn: Callable[[K, V], Iterable[V2]], *, with_key: Literal[True], name: str | None = ...
    ) -> KStream[K, V2]: ...
    @overload
    def flat_map_values(
        self, fn: Callable[[V], Iterable[V2]], *, with_key: Literal[False] = ..., name: str | None = ...
    ) -> KStream[K, V2]: ...
    def flat_map_values(
        self, fn: Callable[..., Any] | Expression, *, with_key: bool = False, name: str | None = None
    ) -> KStream[Any, Any]:
        """Give any number of values for each `fn(value)`. A function that returns text is refused."""
        line = user_line()
        checked = function(fn, KEY_VALUE if with_key else VALUE, "flat_map_values", line)
        return self._then(
            nodes.FlatMapValues(line=line, name=name, parent=self._at, function=checked, with_key=with_key)
        )

    @overload
    def select_key(self, fn: Expression, *, name: str | None = ...) -> KStream[Any, V]: ...
    @overload
    def select_key(self, fn: Callable[[K, V], K2], *, name: str | None = ...) -> KStream[K2, V]: ...
    def select_key(self, fn: Callable[..., Any] | Expression, *, name: str | None = None) -> KStream[Any, Any]:
        """Give another key for each `fn(key, value)`."""
        line = user_line()
        checked = function(fn, KEY_VALUE, "select_key", line)
        return self._then(nodes.SelectKey(line=line, name=name, parent=self._at, function=checked))

    def peek(self, fn: Callable[[K, V], object], *, name: str | None = None) -> KStream[K, V]:
        """Call `fn(key, value)` and pass the record on. After a crash it may see a record again."""
        line = user_line()
        udf = callable_only(fn, KEY_VALUE, "peek", line, "pass a function: an expression has no effect to peek for")
        return self._then(nodes.Peek(line=line, name=name, parent=self._at, function=udf))

    def foreach(self, fn: Callable[[K, V], object], *, name: str | None = None) -> None:
        """Call `fn(key, value)` at the end of the stream. After a crash it may see a record again."""
        line = user_line()
        udf = callable_only(fn, KEY_VALUE, "foreach", line, "pass a function: an expression has no effect")
        self._plan.add(nodes.Foreach(line=line, name=name, parent=self._at, function=udf))

    def merge(self, other: KStream[K, V], *others: KStream[K, V], name: str | None = None) -> KStream[K, V]:
        """Put streams together. No order holds between their records."""
        line = user_line()
        if others and name is not None:
            raise TopologyError(f"{line} merge: one name for several merges", next_step="merge one stream at a time")
        merged = self
        for stream in (other, *others):
            if not isinstance(stream, KStream):
                raise TopologyError(
                    f"{line} merge needs a KStream, not {type(stream).__name__}",
                    next_step="turn a table into a stream with .to_stream()",
                )
            at = same_plan(self, stream, line, "merge")
            merged = merged._then(nodes.Merge(line=line, name=name, parent=merged._at, other=at))
        return merged

    def group_by_key(
        self,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        name: str | None = None,
        grouped: Grouped[K, V] | None = None,
    ) -> KGroupedStream[K, V]:
        """Group by the key there is. Records with a null key or value will not be aggregated."""
        line = user_line()
        how = _grouped(grouped, key, value, name, "group_by_key", line)
        node = nodes.GroupByKey(
            line=line, name=how.name, parent=self._at, key=optional_serde(how.key), value=optional_serde(how.value)
        )
        return KGroupedStream(self._plan, self._plan.add(node))

    @overload
    def group_by(
        self, fn: Expression, *, key: SerdeLike[K2], value: SerdeLike[V] | None = ..., name: str | None = ...
    ) -> KGroupedStream[K2, V]: ...
    @overload
    def group_by(
        self,
        fn: Expression,
        *,
        value: SerdeLike[V] | None = ...,
        name: str | None = ...,
        grouped: Grouped[Any, V] | None = ...,
    ) -> KGroupedStream[Any, V]: ...
    @overload
    def group_by(
        self,
        fn: Callable[[K, V], K2],
        *,
        key: SerdeLike[K2] | None = ...,
        value: SerdeLike[V] | None = ...,
        name: str | None = ...,
        grouped: Grouped[K2, V] | None = ...,
    ) -> KGroupedStream[K2, V]: ...
    def group_by(
        self,
        fn: Callable[..., Any] | Expression,
        *,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        name: str | None = None,
        grouped: Grouped[Any, Any] | None = None,
    ) -> KGroupedStream[Any, Any]:
        """Group by `fn(key, value)`; `key=` says how the new key is written."""
        line = user_line()
        how = _grouped(grouped, key, value, name, "group_by", line)
        node = nodes.GroupBy(
            line=line,
            name=how.name,
            parent=self._at,
            function=function(fn, KEY_VALUE, "group_by", line),
            key=optional_serde(how.key),
            value=optional_serde(how.value),
        )
        return KGroupedStream(self._plan, self._plan.add(node))

    def to(
        self,
        topic: str,
        *,
        key: SerdeLike[K] | None = None,
        value: SerdeLike[V] | None = None,
        name: str | None = None,
        produced: Produced[K, V] | None = None,
    ) -> None:
        """Write to a topic, with timestamp and headers."""
        line = user_line()
        if produced is not None:
            if (key, value, name) != (None, None, None):
                raise _beside("produced", "to", line)
            key, value, name = produced.key, produced.value, produced.name
        self._plan.add(
            nodes.To(
                line=line,
                name=name,
                parent=self._at,
                topic=check_topic(topic, "to", line),
                key=optional_serde(key),
                value=optional_serde(value),
            )
        )


def _grouped(
    grouped: Grouped[Any, Any] | None,
    key: SerdeLike[Any] | None,
    value: SerdeLike[Any] | None,
    name: str | None,
    method: str,
    line: str,
) -> Grouped[Any, Any]:
    if grouped is None:
        return Grouped(key=key, value=value, name=name)
    if (key, value, name) != (None, None, None):
        raise _beside("grouped", method, line)
    return grouped


def _beside(argument: str, method: str, line: str) -> TopologyError:
    return TopologyError(
        f"{line} {method}: key=, value= or name= is given beside {argument}=",
        next_step=f"give them either to {argument.capitalize()} or to the method",
    )
