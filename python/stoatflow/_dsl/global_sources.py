"""Sources that are read to their end before any other input: global tables and global stores.

Takes a topic and serdes, adds a node, returns the table, or the builder for a store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from stoatflow._dsl.by_keyword import by_keyword
from stoatflow._dsl.java_names import JavaNames
from stoatflow._dsl.sources import how_consumed
from stoatflow.errors import TopologyError
from stoatflow.global_table import GlobalKTable
from stoatflow.handlers import OnError, handler
from stoatflow.late import refuse_late
from stoatflow.materialized import (
    Consumed,
    Materialized,
    TimestampLike,
    check_topic,
    store_spec,
    timestamp_spec,
)
from stoatflow.plan import PlanBuilder, nodes
from stoatflow.plan.functions import user_line
from stoatflow.serdes import BareDict, SerdeLike, resolve

if TYPE_CHECKING:
    from typing_extensions import Self

    from stoatflow.processor import ProcessorSupplier
    from stoatflow.stores import StoreBuilder

K = TypeVar("K")
V = TypeVar("V")


class GlobalSources(JavaNames):
    """The builder's methods for global tables and global stores."""

    _plan: PlanBuilder

    @overload
    def global_table(
        self,
        topic: str,
        *,
        key: SerdeLike[K],
        value: BareDict,
        store: str | Materialized | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        timestamp: TimestampLike | None = ...,
    ) -> GlobalKTable[K, dict[str, Any]]: ...
    @overload
    def global_table(
        self,
        topic: str,
        *,
        value: BareDict,
        store: str | Materialized | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        timestamp: TimestampLike | None = ...,
    ) -> GlobalKTable[bytes, dict[str, Any]]: ...
    @overload
    def global_table(
        self,
        topic: str,
        *,
        key: SerdeLike[K],
        value: SerdeLike[V],
        store: str | Materialized | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        timestamp: TimestampLike | None = ...,
    ) -> GlobalKTable[K, V]: ...
    @overload
    def global_table(
        self,
        topic: str,
        *,
        value: SerdeLike[V],
        store: str | Materialized | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        timestamp: TimestampLike | None = ...,
    ) -> GlobalKTable[bytes, V]: ...
    @overload
    def global_table(
        self,
        topic: str,
        *,
        key: SerdeLike[K],
        store: str | Materialized | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        timestamp: TimestampLike | None = ...,
    ) -> GlobalKTable[K, bytes]: ...
    @overload
    def global_table(
        self,
        topic: str,
        *,
        store: str | Materialized | None = ...,
        name: str | None = ...,
        on_error: OnError | None = ...,
        timestamp: TimestampLike | None = ...,
    ) -> GlobalKTable[bytes, bytes]: ...
    @overload
    def global_table(
        self, topic: str, *, consumed: Consumed[K, V], store: str | Materialized | None = ...
    ) -> GlobalKTable[K, V]: ...
    @by_keyword
    def global_table(
        self,
        topic: str,
        *,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        store: str | Materialized | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
        timestamp: TimestampLike | None = None,
        consumed: Consumed[Any, Any] | None = None,
    ) -> GlobalKTable[Any, Any]:
        """Read a topic as a global table: it is complete before other input is read. Join it by any key.

        >>> builder = sf.StreamsBuilder()
        >>> places = builder.global_table("places", key=int, value=str, store="places")
        >>> orders = builder.stream("orders", key=str, value=dict)
        >>> orders.join(places, sf.value["place"], lambda order, place: place).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("places", int, str).pipe(1, "Oslo")
        ...     driver.input("orders", str, dict).pipe("o1", {"place": 1})
        [join]: o1, Oslo
        """
        line = user_line()
        how = how_consumed(consumed, key, value, name, None, timestamp, on_error, "global_table", line)
        refuse_late(how.late, "global_table", line)
        if how.reset is not None:
            raise TopologyError(
                f"{line} global_table: it is always read from the beginning", next_step="leave reset= out"
            )
        if how.watermark is not None:
            raise TopologyError(
                f"{line} global_table: its records are no part of event time", next_step="leave watermark= out"
            )
        node = nodes.GlobalTable(
            line=line,
            name=how.name,
            on_error=handler(how.on_error, "global_table", line),
            topic=check_topic(topic, "global_table", line),
            key=resolve(how.key),
            value=resolve(how.value),
            materialized=store_spec(store, None, None, "global_table", line),
            timestamp=timestamp_spec(how.timestamp, "global_table", line),
        )
        return GlobalKTable(self._plan, self._plan.add(node))

    def add_global_store(
        self,
        store: StoreBuilder[Any, Any],
        topic: str,
        supplier: ProcessorSupplier[Any, Any, Any, Any],
        *,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
        timestamp: TimestampLike | None = None,
        consumed: Consumed[Any, Any] | None = None,
    ) -> Self:
        """Keep a global store from a topic with your own processor; it is complete before other input is read.

        >>> class Keep(sf.ContextualProcessor[str, str, str, str]):
        ...     def process(self, record):
        ...         self.context.state_store("rules").put(record.key, record.value.upper())
        >>> builder = sf.StreamsBuilder()
        >>> store = sf.Stores.key_value("rules", key=str, value=str)
        >>> builder.add_global_store(store, "rules", Keep, key=str, value=str).stream("in").to("out")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("rules", str, str).pipe("r1", "deny")
        ...     print(driver.store("rules").get("r1"))
        DENY
        """
        from stoatflow._dsl.declared_stores import add_global_store

        line = user_line()
        how = how_consumed(consumed, key, value, name, None, timestamp, on_error, "add_global_store", line)
        refuse_late(how.late, "add_global_store", line)
        add_global_store(self._plan, store, check_topic(topic, "add_global_store", line), supplier, how, line)
        return self
