"""Where a topology begins: sources, and the finished `Topology`.

Takes topics and serdes, gives streams and tables. Serdes that are left out mean bytes as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, overload

from stoatflow.errors import TopologyError
from stoatflow.materialized import Consumed, Materialized, Reset, check_topic, store_spec
from stoatflow.plan import PlanBuilder, nodes
from stoatflow.plan.functions import user_line
from stoatflow.serdes import SerdeLike, Serdes, resolve
from stoatflow.stream import KStream
from stoatflow.table import KTable
from stoatflow.topology import Topology

K = TypeVar("K")
V = TypeVar("V")
Topics = str | Sequence[str]


class StreamsBuilder:
    """Builds a topology: sources, operators, sinks, then `build()`."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._plan = PlanBuilder()

    @overload
    def stream(
        self,
        topics: Topics,
        *,
        key: SerdeLike[K],
        value: SerdeLike[V],
        name: str | None = ...,
        reset: Reset | None = ...,
    ) -> KStream[K, V]: ...
    @overload
    def stream(
        self, topics: Topics, *, value: SerdeLike[V], name: str | None = ..., reset: Reset | None = ...
    ) -> KStream[bytes, V]: ...
    @overload
    def stream(
        self, topics: Topics, *, key: SerdeLike[K], name: str | None = ..., reset: Reset | None = ...
    ) -> KStream[K, bytes]: ...
    @overload
    def stream(self, topics: Topics, *, name: str | None = ..., reset: Reset | None = ...) -> KStream[bytes, bytes]: ...
    @overload
    def stream(self, topics: Topics, *, consumed: Consumed[K, V]) -> KStream[K, V]: ...
    def stream(
        self,
        topics: Topics,
        *,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        name: str | None = None,
        reset: Reset | None = None,
        consumed: Consumed[Any, Any] | None = None,
    ) -> KStream[Any, Any]:
        """Read one topic or several. Between several, the smallest timestamp goes first."""
        line = user_line()
        how = _consumed(consumed, key, value, name, reset, "stream", line)
        names = (topics,) if isinstance(topics, str) else tuple(topics)
        if not names:
            raise TopologyError(f"{line} stream: no topic is given", next_step="give at least one topic")
        node = nodes.Stream(
            line=line,
            name=how.name,
            topics=tuple(check_topic(topic, "stream", line) for topic in names),
            key=resolve(how.key),
            value=resolve(how.value),
            reset=how.reset,
        )
        return KStream(self._plan, self._plan.add(node))

    @overload
    def table(
        self,
        topic: str,
        *,
        key: SerdeLike[K],
        value: SerdeLike[V],
        store: str | Materialized | None = ...,
        name: str | None = ...,
        reset: Reset | None = ...,
    ) -> KTable[K, V]: ...
    @overload
    def table(
        self,
        topic: str,
        *,
        value: SerdeLike[V],
        store: str | Materialized | None = ...,
        name: str | None = ...,
        reset: Reset | None = ...,
    ) -> KTable[bytes, V]: ...
    @overload
    def table(
        self,
        topic: str,
        *,
        key: SerdeLike[K],
        store: str | Materialized | None = ...,
        name: str | None = ...,
        reset: Reset | None = ...,
    ) -> KTable[K, bytes]: ...
    @overload
    def table(
        self,
        topic: str,
        *,
        store: str | Materialized | None = ...,
        name: str | None = ...,
        reset: Reset | None = ...,
    ) -> KTable[bytes, bytes]: ...
    @overload
    def table(
        self, topic: str, *, consumed: Consumed[K, V], store: str | Materialized | None = ...
    ) -> KTable[K, V]: ...
    def table(
        self,
        topic: str,
        *,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        store: str | Materialized | None = None,
        name: str | None = None,
        reset: Reset | None = None,
        consumed: Consumed[Any, Any] | None = None,
    ) -> KTable[Any, Any]:
        """Read a topic as a table: the last value of each key. Null keys are dropped, null values delete."""
        line = user_line()
        how = _consumed(consumed, key, value, name, reset, "table", line)
        node = nodes.Table(
            line=line,
            name=how.name,
            topic=check_topic(topic, "table", line),
            key=resolve(how.key),
            value=resolve(how.value),
            materialized=store_spec(store, None, None, "table", line),
            reset=how.reset,
        )
        return KTable(self._plan, self._plan.add(node))

    def build(self) -> Topology:
        """Check everything and give the topology; raise `TopologyError` for what is wrong."""
        return Topology(self._plan.snapshot())


def _consumed(
    consumed: Consumed[Any, Any] | None,
    key: SerdeLike[Any] | None,
    value: SerdeLike[Any] | None,
    name: str | None,
    reset: Reset | None,
    method: str,
    line: str,
) -> Consumed[Any, Any]:
    if consumed is not None:
        if (key, value, name, reset) != (None, None, None, None):
            raise TopologyError(
                f"{line} {method}: key=, value=, name= or reset= is given beside consumed=",
                next_step="give them either to Consumed or to the method",
            )
        key, value, name, reset = consumed.key, consumed.value, consumed.name, consumed.reset
    if reset not in (None, "earliest", "latest"):
        raise TopologyError(
            f"{line} {method}: reset={reset!r} is not known", next_step='use reset="earliest" or reset="latest"'
        )
    return Consumed(
        Serdes.bytes() if key is None else key, Serdes.bytes() if value is None else value, name=name, reset=reset
    )
