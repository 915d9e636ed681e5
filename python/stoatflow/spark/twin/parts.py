"""Cuts a topology into parts that Spark's tasks can run, each a topology of its own.

Takes the nodes of a topology, returns `Part`s in the order in which they run. A part ends where records must be
repartitioned: there it writes to a hop, which later parts read. A node that several parts need (a table, for example)
is computed in each of them, from the same records in the same order. Decides how a part's records are partitioned. Runs
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stoatflow.errors import TopologyError
from stoatflow.plan import Node, nodes
from stoatflow.serdes import Serde
from stoatflow.serdes.planned import planned
from stoatflow.spark.twin.pickle_serde import PickleSerde
from stoatflow.spark.twin.shape import GLOBAL, GROUPED_TABLE, STREAM, TABLE, Edge, Shape, kept_by
from stoatflow.topology import Topology

KEYS, PARTITIONS, ONE = "keys", "partitions", "one"
"""How records are partitioned: by the hash of their key, as Kafka Streams' tasks, or all to one task."""

NAMED = "twin-"
"""Prefix of names that nodes get from their positions."""

Target = int | Edge

# Nodes that depend on the commit that a record is in.
_PROCESSES = frozenset({"process", "process_values", "transform_values", "state_store"})


@dataclass
class Hop:
    """Records that are repartitioned to the task of another key."""

    name: str
    edge: Edge
    keep_null: bool
    key: Serde[Any]
    value: Serde[Any]
    sources: frozenset[str] = frozenset()
    """The input topics of its records."""


@dataclass
class Part:
    """A topology that one of Spark's stages runs, task by task."""

    number: int
    nodes: tuple[Node, ...]
    topics: tuple[str, ...]
    globals: tuple[str, ...]
    hops_in: tuple[str, ...]
    hops_out: tuple[str, ...]
    keep_null: dict[str, bool]
    sinks: tuple[str, ...]
    dynamic: bool
    """Whether a function chooses topics."""
    stores: tuple[str, ...]
    how: str
    timed: tuple[str, ...]
    """What depends on stream time, or on more than a record's own key."""
    keyed: bool
    """Whether it keeps any state by key."""
    batched: bool
    """Whether records may share a commit. Then it isn't known which of them produced an output."""
    after: tuple[str, ...] = field(default=())
    """All input topics of its records, also through hops."""

    def describe(self) -> str:
        """Return one line that describes the part."""
        shared = {
            KEYS: "shared out by key",
            PARTITIONS: f"one task per partition, for the sake of {', '.join(self.timed)}",
            ONE: "all in one task",
        }[self.how]
        reads = ", ".join((*self.topics, *self.hops_in, *(f"{name} (all of it)" for name in self.globals)))
        writes = ", ".join((*self.sinks, *self.hops_out)) or "nothing"
        keeps = f"; keeps {', '.join(self.stores)}" if self.stores else ""
        return f"part {self.number}: {reads} -> {writes}{keeps}; {shared}"

    def to_json(self) -> dict[str, Any]:
        """Return the same as plain data; `tasks` is `keys`, `partitions` or `one`."""
        return {
            "part": self.number,
            "reads": [*self.topics, *self.hops_in],
            "reads_all_of": list(self.globals),
            "writes": [*self.sinks, *self.hops_out],
            "stores": list(self.stores),
            "tasks": self.how,
            "because_of": list(self.timed) if self.how == PARTITIONS else [],
        }


def cut(topology: Topology, only: Sequence[str] | None = None, *, named: bool = False) -> list[Part]:
    """Cut a topology that `faithful.check` accepts. `only`: the parts that these topics need.

    `named`: a node that is in several parts has the same name in all of them.
    """
    return _Cutting(topology, only, named=named).parts()


class _Cutting:
    def __init__(self, topology: Topology, only: Sequence[str] | None, *, named: bool) -> None:
        self.named = named
        self.shape = Shape(topology.nodes)
        self.nodes = self.shape.nodes
        self.hops: dict[Edge, Hop] = {}
        self.writers = _writers(self.nodes)
        self.levels = self._levels()
        self.needed = self._needed(only)

    def parts(self) -> list[Part]:
        made: list[Part] = []
        for level in range(max(self.levels, default=0) + 1):
            targets = list(self._targets(level))
            for target in targets:
                if isinstance(target, Edge):
                    self._resolve(target)
            made += [self._part(len(made) + at, group) for at, group in enumerate(self._together(targets))]
        return made

    def _needed(self, only: Sequence[str] | None) -> set[int]:
        """Return all nodes upstream of these sinks; of them, only the sinks produce results."""
        if only is None:
            self.left_out: set[int] = set()
            return set(range(len(self.nodes)))
        sinks = {at for at, node in enumerate(self.nodes) if isinstance(node, nodes.To) and node.topic in only}
        found: set[int] = set()
        waiting = list(sinks)
        while waiting:
            at = waiting.pop()
            if at not in found:
                found.add(at)
                waiting += [edge.parent for edge in self.shape.edges[at]]
                waiting += [*self._through(at), *self._before(at)]
                names = self.shape.stores_of(at)
                waiting += [self.shape.providers[name] for name in names if name in self.shape.providers]
        self.left_out = found - sinks
        return found

    def _levels(self) -> list[int]:
        """Return, for each node, the most repartitions that its records have gone through."""
        levels = [0] * len(self.nodes)
        for _ in range(len(self.nodes) + 1):
            before = list(levels)
            for at, edges in enumerate(self.shape.edges):
                for edge in edges:
                    levels[at] = max(levels[at], levels[edge.parent] + self.shape.cuts(edge))
                for writer in self._through(at):
                    levels[at] = max(levels[at], levels[writer])
                for name in self.shape.stores_of(at):
                    provider = self.shape.providers.get(name)
                    if provider is not None:
                        # Processors that share a store are in the highest part of any of them.
                        levels[at] = levels[provider] = max(levels[at], levels[provider])
            if levels == before:
                return levels
        raise TopologyError(
            "records of this topology walk in a circle: a topic is written from what is read from it, by another key",
            next_step="run it with the engine: a batch can't follow a circle to its end",
        )

    def _targets(self, level: int) -> Iterator[Target]:
        """Yield what a level must produce: results, hops, named stores, and side effects."""
        for at, node in enumerate(self.nodes):
            if at not in self.needed:
                continue
            for edge in self.shape.edges[at]:
                if self.shape.cuts(edge) and self.levels[edge.parent] == level:
                    yield edge
            if at in self.left_out or self.levels[at] != level or isinstance(node, nodes.StateStore | nodes.Split):
                continue
            if kept_by(node) or not self.shape.children(at):
                yield at

    def _closure(self, targets: Sequence[Target]) -> set[int]:
        """Return the nodes upstream of these, back to where records were repartitioned."""
        found: set[int] = set()
        waiting = [target.parent if isinstance(target, Edge) else target for target in targets]
        while waiting:
            at = waiting.pop()
            if at in found:
                continue
            found.add(at)
            waiting += [edge.parent for edge in self.shape.edges[at] if not self.shape.cuts(edge)]
            waiting += [*self._through(at), *self._before(at)]
            waiting += [self.shape.providers[name] for name in self.shape.stores_of(at) if name in self.shape.providers]
        return found

    def _through(self, at: int) -> list[int]:
        """Return the sinks that write the topic that a source reads."""
        return [writer for topic in _read(self.nodes[at]) for writer in self.writers.get(topic, ())]

    def _before(self, at: int) -> list[int]:
        """Return the branches that come before this one."""
        node = self.nodes[at]
        if not isinstance(node, nodes.Branch):
            return []
        found = [number for number, other in enumerate(self.nodes[:at]) if isinstance(other, nodes.Branch)]
        return [number for number in found if getattr(self.nodes[number], "parent", None) == node.parent]

    def _together(self, targets: Sequence[Target]) -> list[list[Target]]:
        """Group targets that share a processor's store, or more than a source and the partitioning of records.

        A table that is needed both by partition and over all records is computed in both parts.
        """
        groups: list[tuple[list[Target], set[object]]] = []
        for target in targets:
            mine: list[Target] = [target]
            closure = self._closure([target])
            how = self._how(closure)
            shares: set[object] = {at if self._binds(at) else (how, at) for at in closure if self._shared(at)}
            shares |= {(how, node.topic) for node in self._written([target]) if node.topic is not None}
            rest = []
            for others, shared in groups:
                if shared & shares:
                    mine, shares = others + mine, shared | shares
                else:
                    rest.append((others, shared))
            groups = [*rest, (mine, shares)]
        return sorted((group for group, _ in groups), key=lambda group: min(map(self._place, group)))

    def _how(self, closure: set[int]) -> str:
        """Return how the records of a part with these nodes are partitioned."""
        if any(self.shape.foreign_key(at) or self._regroups_table(at) or self._through(at) for at in closure):
            return ONE
        return PARTITIONS if any(self._timed(closure)) else KEYS

    def _written(self, targets: Sequence[Target]) -> Iterator[nodes.To]:
        for target in targets:
            node = None if isinstance(target, Edge) else self.nodes[target]
            if isinstance(node, nodes.To):
                yield node

    def _binds(self, at: int) -> bool:
        """Whether all nodes that use it must be in one part."""
        return bool(self._through(at)) or isinstance(self.nodes[at], nodes.StateStore | nodes.GlobalStore)

    def _shared(self, at: int) -> bool:
        """Whether it is worth computing only once."""
        return self._binds(at) or not isinstance(self.nodes[at], nodes.Stream | nodes.GlobalTable | nodes.Repartition)

    @staticmethod
    def _place(target: Target) -> int:
        return target.child if isinstance(target, Edge) else target

    def _part(self, number: int, targets: Sequence[Target]) -> Part:
        closure = self._closure(targets)
        written = [target for target in targets if isinstance(target, Edge)]
        built = _Building(self, closure)
        plan = built.plan(written)
        named = {name for at in closure for name in kept_by(self.nodes[at])}
        own = {name for target in targets if isinstance(target, int) for name in kept_by(self.nodes[target])}
        # A processor's stores are kept in the part that runs it.
        own |= {
            name
            for at in closure
            if self.levels[at] == self._level(targets)
            for name in self.shape.stores_of(at)
            if isinstance(self.nodes[self.shape.providers.get(name, at)], nodes.StateStore)
        }
        sinks = list(self._written(targets))
        timed = tuple(dict.fromkeys(self._timed(closure)))
        how = self._how(closure)
        topics = tuple(dict.fromkeys(topic for at in sorted(closure) for topic in _read(self.nodes[at])))
        return Part(
            number=number,
            nodes=plan,
            topics=topics,
            globals=tuple(dict.fromkeys(t for at in sorted(closure) for t in _read_whole(self.nodes[at]))),
            hops_in=tuple(built.hops),
            hops_out=tuple(self.hops[edge].name for edge in written),
            keep_null={self.hops[edge].name: self.hops[edge].keep_null for edge in written},
            sinks=tuple(dict.fromkeys(node.topic for node in sinks if node.topic is not None)),
            dynamic=any(node.topic is None for node in sinks),
            stores=tuple(sorted(own & named)),
            how=how,
            timed=timed,
            keyed=any(self._keeps(at) for at in closure),
            batched=not (written or how == ONE or _PROCESSES & set(timed))
            and all(self._same_key(target) for target in targets),
            after=tuple(sorted(self._after(closure))),
        )

    def _level(self, targets: Sequence[Target]) -> int:
        return max(self.levels[target.parent if isinstance(target, Edge) else target] for target in targets)

    def _after(self, closure: set[int]) -> set[str]:
        """Return the input topics of these nodes' records."""
        found = {topic for at in closure for topic in _read(self.nodes[at])}
        for at in closure:
            for edge in self.shape.edges[at]:
                if edge in self.hops:
                    found |= self.hops[edge].sources
        return found

    def _timed(self, closure: set[int]) -> Iterator[str]:
        for at in sorted(closure):
            if reason := timed_by(self.shape, at):
                yield reason

    def _regroups_table(self, at: int) -> bool:
        return isinstance(self.nodes[at], nodes.GroupBy) and self.shape.kinds[at] == GROUPED_TABLE

    def _keeps(self, at: int) -> bool:
        return self.shape.kinds[at] == TABLE or bool(self.shape.stores_of(at)) or self.shape.of_streams(at)

    def _same_key(self, target: Target) -> bool:
        """Whether its results keep the keys by which the records were partitioned."""
        if isinstance(target, Edge):
            return False
        node = self.nodes[target]
        if not isinstance(node, nodes.To):
            return self.shape.kinds[target] in {TABLE, GLOBAL} or bool(kept_by(node))
        return isinstance(node.parent, int) and not self.shape.rekeyed[node.parent]

    def _resolve(self, edge: Edge) -> None:
        """Find the serdes of a hop's records: those known to the engine, or pickle."""
        node, name = self.nodes[edge.child], f"twin-hop-{len(self.hops)}"
        key, value = _serdes_of(node, edge.slot)
        closure = self._closure([edge])
        sources = frozenset(self._after(closure))
        pickled: Serde[Any] = PickleSerde()
        problem: TopologyError | None = None
        for with_key, with_value in ((key, value), (key, value or pickled), (key or pickled, value or pickled)):
            hop = Hop(name, edge, self.shape.keeps_null(edge), with_key or pickled, with_value or pickled, sources)
            built = _Building(self, closure)
            try:
                compiled = Topology(built.with_hop(edge, name, with_key, with_value))
            except TopologyError as error:
                problem = error
                continue
            hop.key, hop.value = _written_with(compiled, name)
            self.hops[edge] = hop
            return
        raise problem or TopologyError(f"{node.line} {node.op}: its records can't be written")


class _Building:
    """The nodes of a part, with parents by their positions in it."""

    def __init__(self, cutting: _Cutting, closure: set[int]) -> None:
        self.cutting = cutting
        self.closure = closure
        self.made: list[Node] = []
        self.at: dict[int, int] = {}
        self.hops: dict[str, int] = {}
        for at in sorted(closure):
            self._add(at)

    def plan(self, written: Sequence[Edge]) -> tuple[Node, ...]:
        for edge in written:
            hop = self.cutting.hops[edge]
            self._write(edge, hop.name, hop.key, hop.value)
        return tuple(self.made)

    def with_hop(self, edge: Edge, name: str, key: Serde[Any] | None, value: Serde[Any] | None) -> tuple[Node, ...]:
        self._write(edge, name, key, value)
        return tuple(self.made)

    def _add(self, at: int) -> None:
        node, edges = self.cutting.nodes[at], self.cutting.shape.edges[at]
        places = {edge: self._above(edge) for edge in edges}
        if isinstance(node, nodes.Repartition):
            # The hop replaces the topic.
            self.at[at] = places[edges[0]]
            return
        if isinstance(node, nodes.GroupBy) and self.cutting.shape.kinds[edges[0].parent] == STREAM:
            node = nodes.GroupByKey(
                line=node.line,
                name=node.name,
                parent=node.parent,
                key=node.key,
                value=node.value,
                on_error=node.on_error,
            )
        changed: dict[str, Any] = {}
        if self.cutting.named and node.name is None:
            changed["name"] = f"{NAMED}{at}"
        if isinstance(getattr(node, "parent", None), tuple):
            changed["parent"] = tuple(places[edge] for edge in edges if edge.slot == "parent")
        else:
            changed |= {edge.slot: places[edge] for edge in edges}
        self.at[at] = self._append(replace(node, **changed) if changed else node)

    def _above(self, edge: Edge) -> int:
        hop = self.cutting.hops.get(edge)
        if hop is None:
            return self.at[edge.parent]
        if hop.name not in self.hops:
            line = self.cutting.nodes[edge.child].line
            source = nodes.Stream(line=line, topics=(hop.name,), key=hop.key, value=hop.value)
            self.hops[hop.name] = self._append(source)
        return self.hops[hop.name]

    def _write(self, edge: Edge, name: str, key: Serde[Any] | None, value: Serde[Any] | None) -> None:
        child = self.cutting.nodes[edge.child]
        parent = self.at[edge.parent]
        if isinstance(child, nodes.GroupBy):
            parent = self._append(
                nodes.SelectKey(line=child.line, parent=parent, function=child.function, on_error=child.on_error)
            )
        self._append(nodes.To(line=child.line, parent=parent, topic=name, key=key, value=value))

    def _append(self, node: Node) -> int:
        self.made.append(node)
        return len(self.made) - 1


def timed_by(shape: Shape, at: int) -> str | None:  # noqa: PLR0911  # one return per reason
    """Return what in a node depends on the time of its task, or on more than a record's own key."""
    node = shape.nodes[at]
    if isinstance(node, nodes.WindowedBy | nodes.Suppress | nodes.Deduplicate):
        return node.op
    if shape.of_streams(at):
        return f"{node.op} of streams"
    if getattr(node, "grace_ms", None) is not None:
        return f"{node.op} with a grace"
    if isinstance(node, nodes.Process | nodes.ProcessValues | nodes.TransformValues):
        return node.op
    if isinstance(node, nodes.StateStore):
        return "state_store"
    kept = getattr(node, "materialized", None)
    if kept is not None and kept.history_ms is not None:
        return f"{node.op} with versions"
    time = getattr(node, "timestamp", None)
    if isinstance(time, nodes.TimestampFunction) or time == "use_partition_time":
        return "a timestamp function"
    return None


def _writers(plan: Sequence[Node]) -> dict[str, list[int]]:
    """Return the sinks of each topic."""
    writers: dict[str, list[int]] = {}
    for at, node in enumerate(plan):
        if isinstance(node, nodes.To) and node.topic is not None:
            writers.setdefault(node.topic, []).append(at)
    return writers


def _read(node: Node) -> tuple[str, ...]:
    if isinstance(node, nodes.Stream):
        return node.topics or ()
    return (node.topic,) if isinstance(node, nodes.Table) else ()


def topics_of(node: Node) -> tuple[str, ...]:
    """Return the topics that a node reads."""
    return (*_read(node), *_read_whole(node))


def _read_whole(node: Node) -> tuple[str, ...]:
    return (node.topic,) if isinstance(node, nodes.GlobalTable | nodes.GlobalStore) else ()


def _written_with(topology: Topology, sink: str) -> tuple[Serde[Any], Serde[Any]]:
    """Return the serdes that the engine has found for a sink."""
    for each in json.loads(topology.plan.physical_json)["sinks"]:
        if each["topic"] == sink:
            return planned(each["key"], topology.custom_serde), planned(each["value"], topology.custom_serde)
    raise AssertionError(f"{sink} was written a moment ago")


def _serdes_of(node: Node, slot: str) -> tuple[Serde[Any] | None, Serde[Any] | None]:
    """Return the serdes that the user gave for the input of a node."""
    key = getattr(node, "key", None)
    value = getattr(node, "other_value" if slot == "other" else "value", None)
    return key, value
