"""Operators of a stream that treat each record by itself: filters, mappings, side effects.

Takes functions or native expressions, adds nodes, returns new handles. `(key, value)` callbacks and `(value)` callbacks
are distinguished by the method, never by the function's arity.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from stoatflow.durations import Duration
from stoatflow.expressions import Expression
from stoatflow.expressions.expression import Operand
from stoatflow.handlers import OnError, handler
from stoatflow.plan import Handle, nodes
from stoatflow.plan.functions import KEY_VALUE, VALUE, callable_only, function, given, pairing, user_line
from stoatflow.printed import Printed
from stoatflow.serdes.resolve import Unspecified

if TYPE_CHECKING:
    from stoatflow.arrow import ArrowResult
    from stoatflow.stream import KStream

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


class Stateless(Handle, Generic[K, V]):
    """The stateless operators of a stream."""

    __slots__ = ()

    def _then(self, node: nodes.Node) -> KStream[Any, Any]:
        from stoatflow.stream import KStream  # this class is a part of it

        return KStream(self._plan, self._plan.add(node))

    def filter(
        self,
        predicate: Callable[[K, V], object] | Expression,
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, V]:
        """Keep records for which `predicate(key, value)` holds. The predicate also gets null values.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("n", key=str, value=int)
        >>> numbers.filter(sf.value > 1).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 1), ("b", 2)])
        [filter]: b, 2
        """
        line = user_line()
        fn = function(predicate, KEY_VALUE, "filter", line)
        return self._then(
            nodes.Filter(line=line, name=name, on_error=handler(on_error, "filter", line), parent=self._at, function=fn)
        )

    def filter_not(
        self,
        predicate: Callable[[K, V], object] | Expression,
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, V]:
        """Drop records for which `predicate(key, value)` holds.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("n", key=str, value=int)
        >>> numbers.filter_not(lambda key, n: n > 1).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 1), ("b", 2)])
        [filter_not]: a, 1
        """
        line = user_line()
        fn = function(predicate, KEY_VALUE, "filter_not", line)
        return self._then(
            nodes.FilterNot(
                line=line, name=name, on_error=handler(on_error, "filter_not", line), parent=self._at, function=fn
            )
        )

    @overload
    def map(
        self, fn: tuple[Expression, Operand] | Expression, *, name: str | None = ..., on_error: OnError | None = ...
    ) -> KStream[Any, Any]: ...
    @overload
    def map(
        self, fn: Callable[[K, V], tuple[K2, V2]], *, name: str | None = ..., on_error: OnError | None = ...
    ) -> KStream[K2, V2]: ...
    def map(
        self,
        fn: Callable[[K, V], tuple[K2, V2]] | tuple[Expression, Operand] | Expression,
        *,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[Any, Any]:
        """Replace each record by the `(key, value)` that `fn(key, value)` returns. If the key stays, use `map_values`.

        Two expressions work as well: `map((sf.value["id"], sf.key))`.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("n", key=str, value=int)
        >>> numbers.map(lambda key, n: (n, key.upper())).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 1), ("b", 2)])
        [map]: 1, A
        [map]: 2, B
        """
        line = user_line()
        udf = pairing(fn, "map", line, "write map((key, value)) or select_key(key).map_values(value)")
        return self._then(
            nodes.Map(line=line, name=name, on_error=handler(on_error, "map", line), parent=self._at, function=udf)
        )

    @overload
    def map_values(
        self, fn: Expression, *, name: str | None = ..., on_error: OnError | None = ...
    ) -> KStream[K, Any]: ...

    # A function that returns `Any` would also match the overloads for coroutines: the first two are for it.
    @overload
    def map_values(
        self,
        fn: Callable[[K, V], Unspecified],
        *,
        with_key: Literal[True],
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, Any]: ...
    @overload
    def map_values(
        self,
        fn: Callable[[V], Unspecified],
        *,
        with_key: Literal[False] = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, Any]: ...
    @overload
    def map_values(
        self,
        fn: Callable[[K, V], Coroutine[Any, Any, V2]],
        *,
        with_key: Literal[True],
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, V2]: ...
    @overload
    def map_values(
        self,
        fn: Callable[[V], Coroutine[Any, Any, V2]],
        *,
        with_key: Literal[False] = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, V2]: ...
    @overload
    def map_values(
        self,
        fn: Callable[[K, V], V2],
        *,
        with_key: Literal[True],
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, V2]: ...
    @overload
    def map_values(
        self,
        fn: Callable[[V], V2],
        *,
        with_key: Literal[False] = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, V2]: ...
    def map_values(
        self,
        fn: Callable[..., Any] | Expression,
        *,
        with_key: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[Any, Any]:
        """Replace each value by `fn(value)`, or by `fn(key, value)` with `with_key=True`.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("n", key=str, value=int)
        >>> numbers.map_values(lambda n: n * 10).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 1), ("b", 2)])
        [map_values]: a, 10
        [map_values]: b, 20
        """
        line = user_line()
        checked = function(fn, KEY_VALUE if with_key else VALUE, "map_values", line)
        return self._then(
            nodes.MapValues(
                line=line,
                name=name,
                on_error=handler(on_error, "map_values", line),
                parent=self._at,
                function=checked,
                with_key=with_key,
            )
        )

    # A list first: for any other iterable pyright would infer Literal[1] from 1, not int.
    @overload
    def flat_map(
        self, fn: Callable[[K, V], list[tuple[K2, V2]]], *, name: str | None = ..., on_error: OnError | None = ...
    ) -> KStream[K2, V2]: ...
    @overload
    def flat_map(
        self, fn: Callable[[K, V], Iterable[tuple[K2, V2]]], *, name: str | None = ..., on_error: OnError | None = ...
    ) -> KStream[K2, V2]: ...
    def flat_map(
        self, fn: Callable[[K, V], Iterable[tuple[K2, V2]]], *, name: str | None = None, on_error: OnError | None = None
    ) -> KStream[K2, V2]:
        """Replace each record by the `(key, value)` pairs that `fn(key, value)` returns.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("n", key=str, value=int)
        >>> numbers.flat_map(lambda key, n: [(key + str(i), i) for i in range(n)]).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 1), ("b", 2)])
        [flat_map]: a0, 0
        [flat_map]: b0, 0
        [flat_map]: b1, 1
        """
        line = user_line()
        udf = callable_only(
            fn, KEY_VALUE, "flat_map", line, "write flat_map_values(values).select_key(key) with two expressions"
        )
        return self._then(
            nodes.FlatMap(
                line=line, name=name, on_error=handler(on_error, "flat_map", line), parent=self._at, function=udf
            )
        )

    @overload
    def flat_map_values(
        self, fn: Expression, *, name: str | None = ..., on_error: OnError | None = ...
    ) -> KStream[K, Any]: ...
    @overload
    def flat_map_values(
        self,
        fn: Callable[[K, V], Unspecified],
        *,
        with_key: Literal[True],
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, Any]: ...
    @overload
    def flat_map_values(
        self,
        fn: Callable[[V], Unspecified],
        *,
        with_key: Literal[False] = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, Any]: ...
    @overload
    def flat_map_values(
        self,
        fn: Callable[[K, V], Coroutine[Any, Any, Iterable[V2]]],
        *,
        with_key: Literal[True],
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, V2]: ...
    @overload
    def flat_map_values(
        self,
        fn: Callable[[V], Coroutine[Any, Any, Iterable[V2]]],
        *,
        with_key: Literal[False] = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, V2]: ...
    @overload
    def flat_map_values(
        self,
        fn: Callable[[K, V], Iterable[V2]],
        *,
        with_key: Literal[True],
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, V2]: ...
    @overload
    def flat_map_values(
        self,
        fn: Callable[[V], Iterable[V2]],
        *,
        with_key: Literal[False] = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
    ) -> KStream[K, V2]: ...
    def flat_map_values(
        self,
        fn: Callable[..., Any] | Expression,
        *,
        with_key: bool = False,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[Any, Any]:
        """Replace each value by the values that `fn(value)` returns. A function that returns text is refused.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("lines", key=str, value=str)
        >>> numbers.flat_map_values(sf.value.str.split()).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("lines", str, str).pipe_all([("a", "one two")])
        [flat_map_values]: a, one
        [flat_map_values]: a, two
        """
        line = user_line()
        checked = function(fn, KEY_VALUE if with_key else VALUE, "flat_map_values", line)
        return self._then(
            nodes.FlatMapValues(
                line=line,
                name=name,
                on_error=handler(on_error, "flat_map_values", line),
                parent=self._at,
                function=checked,
                with_key=with_key,
            )
        )

    def map_batches(
        self,
        fn: Callable[[Any], ArrowResult],
        *,
        schema: object = None,
        max_rows: int = 1024,
        max_wait: Duration = "50ms",
        by_row: str = "_row",
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KStream[K, Any]:
        """Replace the values of many records at once: `fn` takes a `pyarrow.RecordBatch` and returns columns.

        The batch has a column for each member of the JSON objects (or one column `value`), and `_key`, `_timestamp` and
        `by_row`. The result has one row per input row, or its column `by_row` holds the input row that a row belongs
        to.

        >>> import pyarrow as pa, pyarrow.compute as pc
        >>> def tenfold(batch: pa.RecordBatch) -> pa.RecordBatch:
        ...     return pa.record_batch({"value": pc.multiply(batch["value"], 10)})
        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("n", value=int).map_batches(tenfold).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", value=int).pipe_all([1, 2])
        [map_batches]: None, 10
        [map_batches]: None, 20
        """
        from stoatflow.arrow import batches  # only this method needs it

        line = user_line()
        how, failing = (schema, max_rows, max_wait, by_row), handler(on_error, "map_batches", line)
        return self._then(batches(fn, *how, line=line, name=name, on_error=failing, parent=self._at))

    @overload
    def select_key(
        self, fn: Expression, *, name: str | None = ..., on_error: OnError | None = ...
    ) -> KStream[Any, V]: ...
    @overload
    def select_key(
        self, fn: Callable[[K, V], K2], *, name: str | None = ..., on_error: OnError | None = ...
    ) -> KStream[K2, V]: ...
    def select_key(
        self, fn: Callable[..., Any] | Expression, *, name: str | None = None, on_error: OnError | None = None
    ) -> KStream[Any, Any]:
        """Replace each key by `fn(key, value)`.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("n", key=str, value=int)
        >>> numbers.select_key(sf.value % 2).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 1), ("b", 2)])
        [select_key]: 1, 1
        [select_key]: 0, 2
        """
        line = user_line()
        checked = function(fn, KEY_VALUE, "select_key", line)
        return self._then(
            nodes.SelectKey(
                line=line, name=name, on_error=handler(on_error, "select_key", line), parent=self._at, function=checked
            )
        )

    def peek(
        self, fn: Callable[[K, V], object], *, name: str | None = None, on_error: OnError | None = None
    ) -> KStream[K, V]:
        """Call `fn(key, value)` and pass the record on. After a crash the function may see a record again.

        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.stream("n", key=str, value=int)
        >>> numbers.peek(lambda key, n: print("saw", n)).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 1)])
        saw 1
        [peek]: a, 1
        """
        line = user_line()
        udf = callable_only(fn, KEY_VALUE, "peek", line, "pass a function: an expression has no effect to peek for")
        return self._then(
            nodes.Peek(line=line, name=name, on_error=handler(on_error, "peek", line), parent=self._at, function=udf)
        )

    def foreach(
        self, fn: Callable[[K, V], object], *, name: str | None = None, on_error: OnError | None = None
    ) -> None:
        """Call `fn(key, value)` at the end of the stream. After a crash the function may see a record again.

        >>> seen = []
        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("n", key=str, value=int).foreach(lambda key, n: seen.append((key, n)))
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 1), ("b", 2)])
        >>> seen
        [('a', 1), ('b', 2)]
        """
        line = user_line()
        udf = callable_only(fn, KEY_VALUE, "foreach", line, "pass a function: an expression has no effect")
        self._plan.add(
            nodes.Foreach(
                line=line, name=name, on_error=handler(on_error, "foreach", line), parent=self._at, function=udf
            )
        )

    def foreach_batch(
        self,
        fn: Callable[[Any], object],
        *,
        schema: object = None,
        max_rows: int = 1024,
        max_wait: Duration = "50ms",
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Call `fn` at the end of the stream for many records at once, with a `pyarrow.RecordBatch`.

        Columns, batches and errors are those of `map_batches`; `_topic`, `_partition` and `_offset` are added and say
        where a row's record was read. After a crash the function may see records again, in other batches.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("n", value=int).foreach_batch(lambda batch: print(batch["value"].to_pylist()))
        >>> with TopologyTestDriver(builder.build()) as driver, driver.epoch():
        ...     driver.input("n", value=int).pipe_all([1, 2])
        [1, 2]
        """
        from stoatflow.arrow import batches_to  # only this method needs it

        line = user_line()
        how, failing = (schema, max_rows, max_wait), handler(on_error, "foreach_batch", line)
        self._plan.add(batches_to(fn, *how, line=line, name=name, on_error=failing, parent=self._at))

    def print(
        self, printed: Printed[K, V] | None = None, *, name: str | None = None, on_error: OnError | None = None
    ) -> None:
        """Write a line for each record to standard output, or to the stream or file that `Printed` names.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("n", key=str, value=int).print(sf.Printed(label="numbers"))
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe("a", 1)
        [numbers]: a, 1
        """
        line = user_line()
        how = given(printed, Printed, Printed(), "print", line)
        node = self._plan.snapshot()[self._at]
        writer = nodes.Udf(how.writer(node.name or node.op), f"{line} print")
        self._plan.add(
            nodes.Foreach(
                line=line, name=name, on_error=handler(on_error, "print", line), parent=self._at, function=writer
            )
        )
