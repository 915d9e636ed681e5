"""Processors: the user's code between streams, with stores, schedules and a choice of children.

Takes the user's classes, returns what the plan needs to run them: a supplier creates one object per lane. A lane calls
its object from one thread at a time.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from stoatflow._dsl.signatures import signature_of
from stoatflow._runtime.bridge import Cancellable, KeyLocks, ProcessorContext
from stoatflow.asynchronous import is_async
from stoatflow.errors import TopologyError
from stoatflow.plan import PlanBuilder
from stoatflow.plan.functions import accepts, display_name, never_runs, processor
from stoatflow.plan.node_base import ProcessorRef
from stoatflow.record import FixedKeyRecord, Record

if TYPE_CHECKING:
    from stoatflow.stores import StoreBuilder

__all__ = [
    "Cancellable",
    "ContextualFixedKeyProcessor",
    "ContextualProcessor",
    "FixedKeyProcessor",
    "FixedKeyProcessorContext",
    "FixedKeySupplier",
    "KeyLocks",
    "Processor",
    "ProcessorContext",
    "ProcessorSupplier",
    "TransformerSupplier",
    "ValueTransformer",
    "supplied",
    "with_stores",
]

KIn = TypeVar("KIn")
VIn = TypeVar("VIn")
KOut = TypeVar("KOut")
VOut = TypeVar("VOut")
C = TypeVar("C", bound=type)

FixedKeyProcessorContext = ProcessorContext
"""The context of a `FixedKeyProcessor`: it forwards `FixedKeyRecord`s."""


class Processor(ABC, Generic[KIn, VIn, KOut, VOut]):
    """Processes records and forwards others, possibly with other keys. One object per lane.

    With a timer store it also needs `on_timer(self, timer)`.

    >>> class Twice(sf.Processor[str, int, str, int]):
    ...     def init(self, context):
    ...         self.context = context
    ...     def process(self, record):
    ...         self.context.forward(record.replace(value=record.value * 2))
    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("n", key=str, value=int).process(Twice).print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", str, int).pipe("a", 4)
    [process]: a, 8
    """

    def init(self, context: ProcessorContext[KOut, VOut]) -> None:
        """Initialize: keep the context and the stores, create schedules. Forwarding is not possible yet.

        >>> from stoatflow.testing import MockProcessorContext
        >>> class Ticks(sf.Processor[str, int, str, int]):
        ...     def init(self, context):
        ...         context.schedule("1m", sf.PunctuationType.WALL_CLOCK_TIME, lambda now: print("now", now))
        ...     def process(self, record):
        ...         pass
        >>> context = MockProcessorContext()
        >>> context.init(Ticks())
        >>> context.scheduled_punctuators[0].punctuate(60_000)
        now 60000
        """

    @abstractmethod
    def process(self, record: Record[KIn, VIn]) -> None:
        """Process a record.

        >>> class Words(sf.ContextualProcessor[str, str, str, str]):
        ...     def process(self, record):
        ...         for word in record.value.split():
        ...             self.context.forward(record.replace(key=word))
        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("lines", key=str, value=str).process(Words).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("lines", str, str).pipe("1", "a stoat")
        [process]: a, a stoat
        [process]: stoat, a stoat
        """

    def close(self) -> None:
        """Close: the application stops. Stores can't be used any more.

        >>> class Sends(sf.ContextualProcessor[str, str, str, str]):
        ...     def process(self, record):
        ...         self.context.forward(record)
        ...     def close(self):
        ...         print("closed")
        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("in", key=str, value=str).process(Sends).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("in", str, str).pipe("a", "stoat")
        [process]: a, stoat
        closed
        """


class FixedKeyProcessor(ABC, Generic[KIn, VIn, VOut]):
    """Processes records and forwards others with the same keys. One object per lane.

    With a timer store it also needs `on_timer(self, timer)`, which forwards records with the timer's key.

    >>> class Twice(sf.FixedKeyProcessor[str, int, int]):
    ...     def init(self, context):
    ...         self.context = context
    ...     def process(self, record):
    ...         self.context.forward(record.replace(value=record.value * 2))
    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("n", key=str, value=int).process_values(Twice).print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", str, int).pipe("a", 4)
    [process_values]: a, 8
    """

    def init(self, context: FixedKeyProcessorContext[KIn, VOut]) -> None:
        """Initialize: keep the context and the stores, create schedules. Forwarding is not possible yet.

        >>> class Where(sf.FixedKeyProcessor[str, int, str]):
        ...     def init(self, context):
        ...         self.context, self.lane = context, context.lane
        ...     def process(self, record):
        ...         self.context.forward(record.replace(value=f"{record.value} in lane {self.lane}"))
        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("n", key=str, value=int).process_values(Where).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe("a", 4)
        [process_values]: a, 4 in lane 0
        """

    @abstractmethod
    def process(self, record: FixedKeyRecord[KIn, VIn]) -> None:
        """Process a record.

        >>> class Words(sf.ContextualFixedKeyProcessor[str, str, str]):
        ...     def process(self, record):
        ...         for word in record.value.split():
        ...             self.context.forward(record.replace(value=word))
        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("lines", key=str, value=str).process_values(Words).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("lines", str, str).pipe("1", "a stoat")
        [process_values]: 1, a
        [process_values]: 1, stoat
        """

    def close(self) -> None:
        """Close: the application stops. Stores can't be used any more.

        >>> class Sends(sf.ContextualFixedKeyProcessor[str, str, str]):
        ...     def process(self, record):
        ...         self.context.forward(record)
        ...     def close(self):
        ...         print("closed")
        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("in", key=str, value=str).process_values(Sends).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("in", str, str).pipe("a", "stoat")
        [process_values]: a, stoat
        closed
        """


class ContextualProcessor(Processor[KIn, VIn, KOut, VOut]):
    """A processor that keeps its context as `self.context`.

    >>> class Twice(sf.ContextualProcessor[str, int, str, int]):
    ...     def process(self, record):
    ...         self.context.forward(record.replace(value=record.value * 2))
    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("n", key=str, value=int).process(Twice).print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", str, int).pipe("a", 4)
    [process]: a, 8
    """

    context: ProcessorContext[KOut, VOut]

    def init(self, context: ProcessorContext[KOut, VOut]) -> None:
        """Keep the context; call this method from your own `init`.

        >>> class Where(sf.ContextualProcessor[str, int, str, str]):
        ...     def init(self, context):
        ...         super().init(context)
        ...         self.lane = context.lane
        ...     def process(self, record):
        ...         self.context.forward(record.replace(value=f"{record.value} in lane {self.lane}"))
        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("n", key=str, value=int).process(Where).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe("a", 4)
        [process]: a, 4 in lane 0
        """
        self.context = context


class ContextualFixedKeyProcessor(FixedKeyProcessor[KIn, VIn, VOut]):
    """A processor with fixed keys that keeps its context as `self.context`.

    >>> class Twice(sf.ContextualFixedKeyProcessor[str, int, int]):
    ...     def process(self, record):
    ...         self.context.forward(record.replace(value=record.value * 2))
    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("n", key=str, value=int).process_values(Twice).print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", str, int).pipe("a", 4)
    [process_values]: a, 8
    """

    context: FixedKeyProcessorContext[KIn, VOut]

    def init(self, context: FixedKeyProcessorContext[KIn, VOut]) -> None:
        """Keep the context; call this method from your own `init`.

        >>> class Where(sf.ContextualFixedKeyProcessor[str, int, str]):
        ...     def init(self, context):
        ...         super().init(context)
        ...         self.lane = context.lane
        ...     def process(self, record):
        ...         self.context.forward(record.replace(value=f"{record.value} in lane {self.lane}"))
        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("n", key=str, value=int).process_values(Where).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe("a", 4)
        [process_values]: a, 4 in lane 0
        """
        self.context = context


class ValueTransformer(ABC, Generic[KIn, VIn, VOut]):
    """Returns a new value for each update of a table. It may read stores, but can't forward.

    >>> class Named(sf.ValueTransformer[str, int, str]):
    ...     def transform(self, key, value):
    ...         return f"{key}={value}"
    >>> builder = sf.StreamsBuilder()
    >>> table = builder.table("n", key=str, value=int, store="n")
    >>> table.transform_values(Named).to_stream().print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", str, int).pipe("a", 1)
    [to_stream]: a, a=1
    """

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        """Initialize: keep the context and the stores.

        >>> class Where(sf.ValueTransformer[str, int, str]):
        ...     def init(self, context):
        ...         self.lane = context.lane
        ...     def transform(self, key, value):
        ...         return f"{value} in lane {self.lane}"
        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.table("n", key=str, value=int, store="n")
        >>> numbers.transform_values(Where).to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe("a", 1)
        [to_stream]: a, 1 in lane 0
        """

    @abstractmethod
    def transform(self, key: KIn, value: VIn | None) -> VOut | None:
        """Return the new value; `None` deletes the row.

        >>> class Large(sf.ValueTransformer[str, int, int]):
        ...     def transform(self, key, value):
        ...         return value if value is not None and value > 9 else None
        >>> builder = sf.StreamsBuilder()
        >>> numbers = builder.table("n", key=str, value=int, store="n")
        >>> numbers.transform_values(Large).to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe_all([("a", 10), ("a", 1)])
        [to_stream]: a, 10
        [to_stream]: a, None
        """

    def close(self) -> None:
        """Close: the application stops.

        >>> class Same(sf.ValueTransformer[str, int, int]):
        ...     def transform(self, key, value):
        ...         return value
        ...     def close(self):
        ...         print("closed")
        >>> builder = sf.StreamsBuilder()
        >>> builder.table("n", key=str, value=int, store="n").transform_values(Same).to_stream().print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe("a", 1)
        [to_stream]: a, 1
        closed
        """


ProcessorSupplier: TypeAlias = Callable[[], Processor[KIn, VIn, KOut, VOut]]
"""A `Processor` class, or a function that returns a new processor at each call."""
FixedKeySupplier: TypeAlias = Callable[[], FixedKeyProcessor[KIn, VIn, VOut]]
"""A `FixedKeyProcessor` class, or a function that returns a new processor at each call."""
TransformerSupplier: TypeAlias = Callable[[], ValueTransformer[KIn, VIn, VOut]]
"""A `ValueTransformer` class, or a function that returns a new transformer at each call."""


def with_stores(*connected: str | StoreBuilder[Any, Any]) -> Callable[[C], C]:
    """Connect a processor class to stores: `@with_stores("totals")`, or to `StoreBuilder`s that it brings along.

    >>> @sf.with_stores(sf.Stores.key_value("totals", key=str, value=int))
    ... class Total(sf.ContextualProcessor[str, int, str, int]):
    ...     def process(self, record):
    ...         self.context.state_store("totals").put(record.key, record.value)
    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("n", key=str, value=int).process(Total).print()
    >>> "totals" in builder.build().describe()
    True
    """

    def connect(cls: C) -> C:
        cls.__stores__ = connected  # type: ignore[attr-defined]
        return cls

    return connect


def supplied(
    plan: PlanBuilder, supplier: object, names: Sequence[str], method: str, line: str
) -> tuple[ProcessorRef, tuple[str, ...]]:
    """Check a supplier and the processor it creates; return both with the names of the connected stores.

    Stores that it brings along are added to the plan. A supplier that is not a class is called twice.
    """
    ref = processor(supplier, method, line)
    made = _made(supplier, ref, method, line)
    ref = replace(ref, on_timer=callable(getattr(made, "on_timer", None)))
    return ref, _connected(plan, supplier, made, names, line)


def _connected(plan: PlanBuilder, supplier: object, made: object, names: Sequence[str], line: str) -> tuple[str, ...]:
    from stoatflow._dsl.declared_stores import add_store_once
    from stoatflow.stores import StoreBuilder

    if isinstance(names, str) or not isinstance(names, Iterable):
        shown = f"the text {names!r}" if isinstance(names, str) else repr(names)
        raise TopologyError(
            f"{line} stores= must be a list of names, not {shown}",
            next_step=f'write stores=["{names if isinstance(names, str) else "totals"}"]',
        )
    found: dict[str, None] = {}
    for name in names:
        if not isinstance(name, str):
            raise TopologyError(
                f"{line} stores= must hold names of stores, not {name!r}",
                next_step="add the store with add_state_store and name it here, or give it in the processor's stores()",
            )
        found[name] = None
    brought = [*_brought(supplier, line), *(() if made is supplier else _brought(made, line))]
    for store in brought:
        if isinstance(store, StoreBuilder):
            add_store_once(plan, store, line)
            found[store.name] = None
        elif isinstance(store, str):
            found[store] = None
        else:
            raise TopologyError(
                f"{line} stores() of a processor must give names or what Stores makes, not {store!r}",
                next_step='write: return [Stores.persistent_key_value("totals", key=str, value=int)]',
            )
    return tuple(found)


def _brought(supplier: object, line: str) -> Iterable[Any]:
    """Return the stores of `@with_stores(...)` or of `stores()`: of a class, a supplier object, a processor."""
    listed = getattr(supplier, "__stores__", None)
    if listed is not None:
        return tuple(listed)
    method = getattr(supplier, "stores", None)
    if method is None or not callable(method):
        return ()
    try:
        return tuple(method())
    except TypeError as error:
        if isinstance(supplier, type):
            raise TopologyError(
                f"{line} stores() of {supplier.__qualname__} can't be called: {error}",
                next_step="make it a classmethod: it is called before there is an object",
            ) from error
        raise


def _made(supplier: Any, ref: ProcessorRef, method: str, line: str) -> object:
    """Return what a supplier creates, checked: the class itself, or an object."""
    if isinstance(supplier, type):
        _check_methods(supplier, supplier, ref.display, method, line)
        return supplier
    one, other = supplier(), supplier()
    if one is None:
        raise TopologyError(
            f"{line} {method}: {ref.display} gives None, not a processor",
            next_step=f"return a new object at each call: {method}(lambda: MyProcessor(...))",
        )
    if isinstance(one, type):
        raise TopologyError(
            f"{line} {method}: {ref.display} gives the class {one.__name__}, not an object of it",
            next_step=f"pass the class itself: {method}({one.__name__})",
        )
    _check_methods(one, type(one), ref.display, method, line)
    if one is other:
        raise TopologyError(
            f"{line} the supplier gives the same processor twice: each lane needs its own",
            next_step="make a new one at each call: pass the class, or lambda: MyProcessor(...)",
        )
    return one


def _check_methods(made: object, cls: type, display: str, method: str, line: str) -> None:
    """Raise `TopologyError` for methods that are missing, async, generators, or have wrong parameters."""
    work, given = ("transform", ("key", "value")) if method == "transform_values" else ("process", ("record",))
    for name, shape in ((work, given), ("init", ("context",)), ("close", ()), ("on_timer", ("timer",))):
        wanted = f"{name}({', '.join(shape)})"
        fn = getattr(made, name, None)
        if fn is None and name == "on_timer":
            continue  # whether it is needed is known when the topology is built
        if not callable(fn) or getattr(fn, "__isabstractmethod__", False):
            raise TopologyError(
                f"{line} {method} needs a processor with {wanted}, but {cls.__qualname__} ({display}) has none",
                next_step=_instead(made, work, wanted),
            )
        shown = f"{cls.__qualname__}.{name}"
        if why := never_runs(fn):
            raise TopologyError(
                f"{line} {method}: {shown} ({display_name(fn, line)}) {why}: calling it would not run it, "
                "and every record would be lost",
                next_step=_plainly(name, fn),
            )
        signature = _signature(made, cls, name, fn)
        if signature is not None and not accepts(signature, len(shape)):
            raise TopologyError(
                f"{line} {method} calls {wanted}, but {shown} takes {signature}",
                next_step=f"write def {name}(self{''.join(', ' + each for each in shape)})",
            )


def _plainly(name: str, fn: Any) -> str:
    """Return what to write instead of a method that is async or has a yield."""
    awaits = is_async(fn)
    if name == "transform":
        before = "; what is awaited for it belongs into an async table.map_values(...) before"
        return "return the new value" + (before if awaits else "")
    if name in ("init", "close"):
        clients = "; clients that are opened and closed with await belong to builder.resource(...)"
        return f"write a plain {name}()" + (clients if awaits else "")
    if not awaits:
        return f"write a plain {name}() that calls context.forward(record) for each result"
    return (
        "split it where it awaits: process_values(Before).map_values(async_function, "
        'name="...").process_values(After); why: docs/adr/0008-a-processor-does-not-await.md. '
        "A call that blocks in a plain method costs a thread, not the engine"
    )


def _signature(made: object, cls: type, name: str, fn: Any) -> inspect.Signature | None:
    """Return the parameters without `self`, if they are known."""
    known = signature_of(fn)
    if known is None or made is not cls:
        return known
    static = inspect.getattr_static(cls, name)
    if isinstance(static, (staticmethod, classmethod)):
        return known
    own = list(known.parameters.values())
    if not isinstance(static, FunctionType) or not own:
        return None
    positional = own[0].kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return known.replace(parameters=own[1:] if positional else own)


def _instead(made: object, work: str, wanted: str) -> str:
    if work == "process" and callable(getattr(made, "transform", None)):
        return "a ValueTransformer is for tables: table.transform_values(...)"
    if work == "transform" and callable(getattr(made, "process", None)):
        return "a Processor is for streams: table.to_stream().process(...); here write a ValueTransformer"
    base = "ValueTransformer" if work == "transform" else "Processor"
    return f"make it a subclass of sf.{base} and write {wanted.replace('(', '(self, ', 1).replace(', )', ')')}"
