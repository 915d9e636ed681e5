"""A finished topology: checked once, then immutable. Also built by hand, processor by processor.

Takes nodes (of the DSL, or of its own methods), has the engine check them once, returns texts and what the engine
needs.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from stoatflow._dsl.java_names import JavaNames
from stoatflow._dsl.wrapped import checked_wrapper, wrapped
from stoatflow._runtime import bridge
from stoatflow.asynchronous import Awaiting
from stoatflow.errors import TopologyError
from stoatflow.handlers import OnError, handler
from stoatflow.metrics import Metrics
from stoatflow.plan import EncodedPlan, Node, PlanBuilder, encode, nodes
from stoatflow.plan.functions import user_line
from stoatflow.plan.settings import NO_PLAN_SETTINGS, UNSET_KEY, UNSET_VALUE, PlanSettings, plan_settings
from stoatflow.timers import check_on_timer
from stoatflow.wrapping import Wrapper

if TYPE_CHECKING:
    from stoatflow._runtime.bridge import Plan
    from stoatflow._runtime.event_loop import EventLoop
    from stoatflow.late import LatePolicy
    from stoatflow.materialized import Reset, TimestampLike
    from stoatflow.resources import Resource
    from stoatflow.serdes import Serde, SerdeLike
    from stoatflow.settings import Settings
    from stoatflow.stores import StoreBuilder
    from stoatflow.watermark import Watermark

Parents = str | Sequence[str]


class Topology(JavaNames):
    """The result of `StreamsBuilder.build()`, which `StoatFlow` runs. It can run any number of times.

    `Topology()` is empty: sources, processors and sinks are added by name, parents first. As in Kafka Streams, records
    are not repartitioned between them. A store can be used from every lane in which its processor runs.

    >>> topology = sf.Topology()
    >>> topology = topology.add_source("Source", "in", key=str, value=str)
    >>> topology = topology.add_sink("Sink", "out", "Source", key=str, value=str)
    >>> with TopologyTestDriver(topology) as driver:
    ...     driver.input("in", str, str).pipe("a", "stoat")
    ...     print(driver.output("out", str, str).read_key_value())
    ('a', 'stoat')
    """

    def __init__(
        self,
        plan: Sequence[Node] | None = None,
        *,
        wrapper: Wrapper | None = None,
        resources: Sequence[Resource[Any]] = (),
        defaults: PlanSettings = NO_PLAN_SETTINGS,
        metrics: Metrics | None = None,
    ) -> None:
        """Check the nodes of the DSL; raise `TopologyError` if they are wrong. Without nodes, start empty.

        `wrapper(node, next)` returns what is called instead of each Python function.
        """
        self._wrapper = checked_wrapper(wrapper)
        self._manual_topology = None if plan is not None else _ManualTopology()
        self._resources = tuple(resources)
        self._defaults = defaults
        self._metrics = Metrics() if metrics is None else metrics
        self._compiled: tuple[EncodedPlan, Plan, EventLoop | None] | None = None
        # Two threads must get the same plan: an event loop belongs to the plan with which it was created.
        self._compiling = threading.RLock()
        self._nodes = None if plan is None else tuple(plan)
        if plan is not None:
            self._compiled = self._compile(plan)

    def add_source(
        self,
        name: str,
        topics: str | Sequence[str] | re.Pattern[str],
        *,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        timestamp: TimestampLike | None = None,
        reset: Reset | None = None,
        on_error: OnError | None = None,
        watermark: Watermark | None = None,
        late: LatePolicy | None = None,
    ) -> Topology:
        """Read topics. Serdes that are left out are those of the settings, or raw bytes.

        >>> topology = sf.Topology().add_source("Source", ["shop", "web"], key=str, value=str)
        >>> topology = topology.add_sink("Sink", "all", "Source", key=str, value=str)
        >>> with TopologyTestDriver(topology) as driver:
        ...     driver.input("web", str, str).pipe("a", "stoat")
        ...     print(driver.output("all", str, str).read_key_value())
        ('a', 'stoat')
        """
        from stoatflow.builder import StreamsBuilder

        hand = self._manual("add_source")
        builder = StreamsBuilder()
        builder.stream(
            topics,
            key=UNSET_KEY if key is None else key,
            value=UNSET_VALUE if value is None else value,
            name=name,
            reset=reset,
            timestamp=timestamp,
            on_error=on_error,
            watermark=watermark,
            late=late,
        )
        (node,) = builder._plan.snapshot()
        hand.add(name, node, "add_source")
        return self

    def add_processor(
        self,
        name: str,
        supplier: Callable[[], Any],
        parents: Parents,
        *,
        stores: Sequence[str] = (),
        on_error: OnError | None = None,
    ) -> Topology:
        """Run a processor downstream of its parents (names of sources or processors).

        >>> class Loud(sf.ContextualProcessor[str, str, str, str]):
        ...     def process(self, record):
        ...         self.context.forward(record.replace(value=record.value.upper()))
        >>> topology = sf.Topology().add_source("Source", "in", key=str, value=str)
        >>> topology = topology.add_processor("Loud", Loud, "Source")
        >>> topology = topology.add_sink("Sink", "out", "Loud", key=str, value=str)
        >>> with TopologyTestDriver(topology) as driver:
        ...     driver.input("in", str, str).pipe("a", "stoat")
        ...     print(driver.output("out", str, str).read_value())
        STOAT
        """
        from stoatflow.processor import supplied

        hand, line = self._manual("add_processor"), user_line()
        ref, connected = supplied(hand.stores, supplier, stores, "add_processor", line)
        node = nodes.Process(
            line=line,
            name=name,
            on_error=handler(on_error, "add_processor", line),
            parent=hand.parents(parents, line),
            processor=ref,
            stores=connected,
            low_level=True,
        )
        hand.add(name, node, "add_processor")
        return self

    def add_sink(
        self,
        name: str,
        topic: str | Callable[..., str],
        parents: Parents,
        *,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        partitioner: Callable[..., Any] | None = None,
        partitioner_with_headers: bool = False,
        on_error: OnError | None = None,
    ) -> Topology:
        """Write to a topic (or to the one that `topic(key, value, context)` returns) downstream of its parents.

        The partitioner is that of `KStream.to`.

        >>> topology = sf.Topology().add_source("Source", "in", key=str, value=str)
        >>> by_key = lambda key, value, context: f"of-{key}"
        >>> topology = topology.add_sink("Sink", by_key, "Source", key=str, value=str)
        >>> with TopologyTestDriver(topology) as driver:
        ...     driver.input("in", str, str).pipe("ann", "stoat")
        ...     print(driver.output("of-ann", str, str).read_value())
        stoat
        """
        from stoatflow.stream import KStream

        hand, line = self._manual("add_sink"), user_line()
        plan = PlanBuilder()
        cast("Any", KStream[Any, Any](plan, 0)).to(
            topic,
            key=UNSET_KEY if key is None else key,
            value=UNSET_VALUE if value is None else value,
            partitioner=partitioner,
            partitioner_with_headers=partitioner_with_headers,
            name=name,
            on_error=on_error,
        )
        (node,) = plan.snapshot()
        sink = replace(cast("nodes.To", node), line=line, parent=hand.parents(parents, line))
        hand.add(name, sink, "add_sink")
        return self

    def add_state_store(self, store: StoreBuilder[Any, Any], *processors: str) -> Topology:
        """Add a store, and connect it to processors.

        >>> class Last(sf.ContextualProcessor[str, int, str, int]):
        ...     def process(self, record):
        ...         self.context.state_store("last").put(record.key, record.value)
        >>> topology = sf.Topology().add_source("Source", "n", key=str, value=int)
        >>> topology = topology.add_processor("Last", Last, "Source")
        >>> topology = topology.add_state_store(sf.Stores.key_value("last", key=str, value=int), "Last")
        >>> with TopologyTestDriver(topology) as driver:
        ...     driver.input("n", str, int).pipe("a", 4)
        ...     print(driver.store("last").get("a"))
        4
        """
        from stoatflow._dsl.declared_stores import add_store

        hand, line = self._manual("add_state_store"), user_line()
        add_store(hand.stores, store, line)
        for name in processors:
            hand.connect(name, (store.name,), line)
        return self

    def connect(self, processor: str, *stores: str) -> Topology:
        """Connect a processor to stores that were added.

        >>> class Last(sf.ContextualProcessor[str, int, str, int]):
        ...     def process(self, record):
        ...         self.context.state_store("last").put(record.key, record.value)
        >>> topology = sf.Topology().add_source("Source", "n", key=str, value=int)
        >>> topology = topology.add_state_store(sf.Stores.key_value("last", key=str, value=int))
        >>> topology = topology.add_processor("Last", Last, "Source").connect("Last", "last")
        >>> with TopologyTestDriver(topology) as driver:
        ...     driver.input("n", str, int).pipe("a", 4)
        ...     print(driver.store("last").get("a"))
        4
        """
        self._manual("connect").connect(processor, stores, user_line())
        return self

    connect_processor_and_state_stores = connect

    def add_global_store(
        self,
        store: StoreBuilder[Any, Any],
        topic: str,
        supplier: Callable[[], Any],
        *,
        key: SerdeLike[Any] | None = None,
        value: SerdeLike[Any] | None = None,
        name: str | None = None,
        timestamp: TimestampLike | None = None,
        on_error: OnError | None = None,
    ) -> Topology:
        """Keep a global store with a processor from a topic; it is complete before other input is read.

        >>> class Keeps(sf.ContextualProcessor[str, str, str, str]):
        ...     def process(self, record):
        ...         self.context.state_store("places").put(record.key, record.value)
        >>> store = sf.Stores.key_value("places", key=str, value=str, logging=False)
        >>> topology = sf.Topology().add_global_store(store, "places", Keeps, key=str, value=str)
        >>> topology = topology.add_source("Source", "in").add_sink("Sink", "out", "Source")
        >>> with TopologyTestDriver(topology) as driver:
        ...     driver.input("places", str, str).pipe("7", "Oslo")
        ...     print(driver.store("places").get("7"))
        Oslo
        """
        from stoatflow.builder import StreamsBuilder

        hand = self._manual("add_global_store")
        builder = StreamsBuilder()
        builder.add_global_store(
            store, topic, supplier, key=key, value=value, name=name, timestamp=timestamp, on_error=on_error
        )
        (node,) = builder._plan.snapshot()
        hand.stores.add(node)
        return self

    # A read-only store is a global store here: it is complete before other input is read, which is a stronger
    # guarantee.
    add_read_only_store = add_global_store

    @property
    def plan(self) -> Plan:
        """The engine's plan."""
        return self._checked()[1]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The user's nodes, with the original functions; for the doctor.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("in", key=str, value=str).filter(sf.value.len() > 3).to("out")
        >>> [node.op for node in builder.build().nodes]
        ['stream', 'filter', 'to']
        """
        return tuple(self._manual("plan").nodes()) if self._nodes is None else self._nodes

    @property
    def encoded(self) -> EncodedPlan:
        """The encoded plan that was passed to the engine."""
        return self._checked()[0]

    @property
    def event_loop(self) -> EventLoop | None:
        """Event loop of its async functions and resources, if it has any; for the application that runs it.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("in", key=str, value=str).to("out")
        >>> builder.build().event_loop is None
        True
        """
        return self._checked()[2]

    @property
    def is_wrapped(self) -> bool:
        """Whether its functions are wrapped.

        >>> builder = sf.StreamsBuilder(wrapper=lambda node, next: next)
        >>> builder.stream("in", key=str, value=str).to("out")
        >>> builder.build().is_wrapped
        True
        """
        return self._wrapper is not None

    def custom_serde(self, index: int) -> Serde[Any]:
        """Return a custom serde by its index in the plan.

        >>> class Hex(sf.Serde[bytes]):
        ...     def serialize(self, value):
        ...         return value.hex().encode()
        ...     def deserialize(self, data):
        ...         return bytes.fromhex(data.decode())
        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("in", key=str, value=Hex()).to("out")
        >>> builder.build().custom_serde(0)
        <Serde Hex>
        """
        return self._checked()[0].serdes[index]

    def for_settings(self, settings: Settings) -> Topology:
        """Return this topology with the settings' default serdes, timestamp extractor and optimizations.

        Defaults apply where the topology gives nothing. Raises `ConfigError`, or `TopologyError` if they don't fit.
        `StoatFlow` and the test driver do it themselves.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("in").print()
        >>> settings = sf.Settings({"default.value.serde": "string"}, environ={})
        >>> with TopologyTestDriver(builder.build().for_settings(settings)) as driver:
        ...     driver.input("in", value=str).pipe("stoat")
        [stream]: None, stoat
        """
        defaults = plan_settings(settings).over(self._defaults)
        if defaults == self._defaults:
            return self
        return Topology(
            self.nodes,
            wrapper=self._wrapper,
            resources=self._resources,
            defaults=defaults,
            metrics=self._metrics,
        )

    @property
    def metrics(self) -> Metrics:
        """The metrics that functions and processors of this topology may change.

        >>> topology = sf.Topology()
        >>> topology.metrics.gauge("orders_open", "Orders that are open").name
        'orders_open'
        """
        return self._metrics

    def describe(self) -> str:
        """Return the text of Kafka Streams' `topology.describe()`.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("in", name="source").to("out", name="sink")
        >>> print(builder.build().describe().rstrip())
        Topologies:
           Sub-topology: 0
            Source: source (topics: [in])
              --> sink
            Sink: sink (topic: out)
              <-- source
        """
        return self.plan.description

    def to_json(self) -> str:
        """Return the plan as it was passed to the engine.

        >>> import json
        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("in").to("out")
        >>> [node["op"] for node in json.loads(builder.build().to_json())["nodes"]]
        ['stream', 'to']
        """
        return self._checked()[0].json

    def __repr__(self) -> str:
        """Show its size."""
        count = len(self._checked()[0].data["nodes"])
        return f"<Topology of {count} {'node' if count == 1 else 'nodes'}>"

    def _checked(self) -> tuple[EncodedPlan, Plan, EventLoop | None]:
        with self._compiling:
            if self._compiled is None:
                self._compiled = self._compile(self._manual("plan").nodes())
            return self._compiled

    def _compile(self, plan: Sequence[Node]) -> tuple[EncodedPlan, Plan, EventLoop | None]:
        check_on_timer(plan)
        encoded = encode(plan, shared=self._wrapper is None, defaults=self._defaults)
        if self._wrapper is not None:
            # The wrapper gets the names of the checked plan, so the plan is compiled twice.
            encoded = wrapped(encoded, bridge.compile_plan(encoded).physical_json, plan, self._wrapper)
        loop = None
        if self._resources or any(isinstance(fn, Awaiting) for fn in encoded.functions):
            from stoatflow._runtime.event_loop import on_event_loop

            encoded, loop = on_event_loop(encoded, self._resources)
        return encoded, bridge.compile_plan(encoded, self._metrics), loop

    def _manual(self, method: str) -> _ManualTopology:
        if self._manual_topology is None:
            raise TopologyError(
                f"{user_line()} {method}: this topology was built with a StreamsBuilder, and is finished",
                next_step="add everything to the StreamsBuilder, or start with an empty Topology()",
            )
        if method != "plan":
            self._compiled = None
        return self._manual_topology


class _ManualTopology:
    """Nodes by name, while they are being added."""

    def __init__(self) -> None:
        self.stores = PlanBuilder()
        self._nodes: dict[str, Node] = {}

    def add(self, name: str, node: Node, method: str) -> None:
        if not isinstance(name, str) or not name:
            raise TopologyError(
                f"{node.line} {method} needs a name, not {name!r}", next_step=f'write {method}("name", ...)'
            )
        if name in self._nodes:
            raise TopologyError(
                f"{node.line} {method}: there is a node named '{name}' already ({self._nodes[name].line})",
                next_step="give each node its own name",
            )
        self._nodes[name] = node

    def parents(self, parents: Parents, line: str) -> tuple[int, ...]:
        if not isinstance(parents, Iterable):
            raise TopologyError(f"{line} parents are named, not {parents!r}", next_step="name a source or a processor")
        names = (parents,) if isinstance(parents, str) else tuple(parents)
        if not names:
            raise TopologyError(f"{line} a node needs a parent", next_step="name a source or a processor")
        order = list(self._nodes)
        for name in names:
            if name not in self._nodes:
                raise TopologyError(
                    f"{line} there is no node named '{name}' yet",
                    next_step=f"add it first; there are: {', '.join(order) or 'none'}",
                )
            if isinstance(self._nodes[name], nodes.To):
                raise TopologyError(
                    f"{line} the sink '{name}' can't be a parent", next_step="name a source or a processor"
                )
        return tuple(order.index(name) for name in names)

    def connect(self, name: str, stores: Sequence[str], line: str) -> None:
        node = self._nodes.get(name)
        if not isinstance(node, nodes.Process):
            raise TopologyError(
                f"{line} there is no processor named '{name}'", next_step="add the processor first, then connect it"
            )
        self._nodes[name] = replace(node, stores=tuple(dict.fromkeys((*node.stores, *stores))))

    def nodes(self) -> list[Node]:
        """Return stores, then the other nodes, with parents by their positions in the result."""
        stores = self.stores.snapshot()
        moved: list[Node] = list(stores)
        for node in self._nodes.values():
            if isinstance(node, nodes.Process | nodes.To) and isinstance(node.parent, tuple):
                moved.append(replace(node, parent=tuple(at + len(stores) for at in node.parent)))
            else:
                moved.append(node)
        return moved


def built(topology: object) -> Topology:
    """Return a finished topology; raise `TopologyError` for anything else."""
    if isinstance(topology, Topology):
        return topology
    if type(topology).__name__ == "StreamsBuilder":
        raise TopologyError("a StreamsBuilder is given, a topology is needed", next_step="write builder.build()")
    raise TopologyError(f"a topology is needed, not {topology!r}", next_step="pass what builder.build() gives")
