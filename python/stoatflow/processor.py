"""Processors: code of your own between streams, with stores, schedules and a choice of children.

Takes classes of the user, gives what the plan needs to run them: a supplier makes one object per lane. A lane calls
its object from one thread at a time, never from two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from stoatflow._bridge import Cancellable, ProcessorContext
from stoatflow.errors import TopologyError
from stoatflow.plan import PlanBuilder
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
    "Processor",
    "ProcessorContext",
    "ProcessorSupplier",
    "TransformerSupplier",
    "ValueTransformer",
    "check_supplier",
    "connected_stores",
    "with_stores",
]

KIn = TypeVar("KIn")
VIn = TypeVar("VIn")
KOut = TypeVar("KOut")
VOut = TypeVar("VOut")
C = TypeVar("C", bound=type)

FixedKeyProcessorContext = ProcessorContext
"""What a `FixedKeyProcessor` gets: it forwards `FixedKeyRecord`s."""


class Processor(ABC, Generic[KIn, VIn, KOut, VOut]):
    """Takes records, forwards others, whose keys may differ. One object per lane."""

    def init(self, context: ProcessorContext[KOut, VOut]) -> None:
        """Begin: keep the context and the stores, make schedules. Nothing can be forwarded yet."""

    @abstractmethod
    def process(self, record: Record[KIn, VIn]) -> None:
        """Take a record."""

    def close(self) -> None:
        """End: the application stops. Stores can't be used any more."""


class FixedKeyProcessor(ABC, Generic[KIn, VIn, VOut]):
    """Takes records, forwards others with the same keys. One object per lane."""

    def init(self, context: FixedKeyProcessorContext[KIn, VOut]) -> None:
        """Begin: keep the context and the stores, make schedules. Nothing can be forwarded yet."""

    @abstractmethod
    def process(self, record: FixedKeyRecord[KIn, VIn]) -> None:
        """Take a record."""

    def close(self) -> None:
        """End: the application stops. Stores can't be used any more."""


class ContextualProcessor(Processor[KIn, VIn, KOut, VOut]):
    """A processor that keeps its context as `self.context`."""

    context: ProcessorContext[KOut, VOut]

    def init(self, context: ProcessorContext[KOut, VOut]) -> None:
        """Keep the context; call it from an `init` of your own."""
        self.context = context


class ContextualFixedKeyProcessor(FixedKeyProcessor[KIn, VIn, VOut]):
    """A processor with fixed keys that keeps its context as `self.context`."""

    context: FixedKeyProcessorContext[KIn, VOut]

    def init(self, context: FixedKeyProcessorContext[KIn, VOut]) -> None:
        """Keep the context; call it from an `init` of your own."""
        self.context = context


class ValueTransformer(ABC, Generic[KIn, VIn, VOut]):
    """Gives a value for each update of a table. It may read stores; it can't forward."""

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        """Begin: keep the context and the stores."""

    @abstractmethod
    def transform(self, key: KIn, value: VIn | None) -> VOut | None:
        """Give the new value; `None` deletes."""

    def close(self) -> None:
        """End: the application stops."""


ProcessorSupplier: TypeAlias = Callable[[], Processor[KIn, VIn, KOut, VOut]]
"""A `Processor` class, or a function that makes a new one at each call."""
FixedKeySupplier: TypeAlias = Callable[[], FixedKeyProcessor[KIn, VIn, VOut]]
"""A `FixedKeyProcessor` class, or a function that makes a new one at each call."""
TransformerSupplier: TypeAlias = Callable[[], ValueTransformer[KIn, VIn, VOut]]
"""A `ValueTransformer` class, or a function that makes a new one at each call."""


def with_stores(*connected: str | StoreBuilder[Any, Any]) -> Callable[[C], C]:
    """Connect a processor class to stores: `@with_stores("totals")`, or to `StoreBuilder`s that it brings along."""

    def connect(cls: C) -> C:
        cls.__stores__ = connected  # type: ignore[attr-defined]
        return cls

    return connect


def connected_stores(plan: PlanBuilder, supplier: object, names: Sequence[str], line: str) -> tuple[str, ...]:
    """Give the names of a processor's stores; add to the plan those that it brings along."""
    from stoatflow.stores import StoreBuilder, add_store_once

    if isinstance(names, str):
        raise TopologyError(
            f"{line} stores= must be a list of names, not the text {names!r}", next_step=f'write stores=["{names}"]'
        )
    found: dict[str, None] = {}
    for name in names:
        if not isinstance(name, str):
            raise TopologyError(
                f"{line} stores= must hold names of stores, not {name!r}",
                next_step="add the store with add_state_store and name it here, or give it in the processor's stores()",
            )
        found[name] = None
    for store in _brought(supplier, line):
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
    check_supplier(supplier, line)
    return tuple(found)


def _brought(supplier: object, line: str) -> Iterable[Any]:
    """Give what `@with_stores(...)` or a `stores()` of a class (or of a supplier object) says."""
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


def check_supplier(supplier: object, line: str) -> None:
    """Raise `TopologyError` if a supplier gives the same object twice. A class never does."""
    if isinstance(supplier, type) or not callable(supplier):
        return
    if supplier() is supplier():
        raise TopologyError(
            f"{line} the supplier gives the same processor twice: each lane needs its own",
            next_step="make a new one at each call: pass the class, or lambda: MyProcessor(...)",
        )
