"""Kinds of a topology's nodes: streams or tables, with the key that they read or another.

Takes nodes of the DSL, returns their kinds, their parents, and the providers of their stores. Decides where a record
must be repartitioned. The engine's plan has the same rule (`plan/src/check.rs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stoatflow.plan import Node, nodes

STREAM, TABLE, GLOBAL, GROUPED, GROUPED_TABLE, STORE = "stream", "table", "global", "grouped", "grouped table", "store"

_REKEYING = (nodes.Map, nodes.FlatMap, nodes.SelectKey)
_JOINS = (nodes.Join, nodes.LeftJoin, nodes.OuterJoin)
_SHAPED = (nodes.WindowedBy, nodes.EmitStrategyNode, nodes.Cogroup)


@dataclass(frozen=True)
class Edge:
    """A node and one of its parents."""

    child: int
    slot: str
    """The field that names the parent: `parent` or `other`."""
    parent: int


class Shape:
    """The nodes of a topology, with properties derived from their order."""

    def __init__(self, plan: Sequence[Node]) -> None:
        """Visit each node once: parents come before children."""
        self.nodes = tuple(plan)
        self.edges = [list(_edges(at, node)) for at, node in enumerate(self.nodes)]
        self.kinds: list[str] = []
        self.rekeyed: list[bool] = []
        for at, node in enumerate(self.nodes):
            self.kinds.append(self._kind(at, node))
            self.rekeyed.append(self._is_rekeyed(at, node))
        self.relaxed = self._relaxed()
        self.providers = {name: at for at, node in enumerate(self.nodes) for name in kept_by(node)}

    def cuts(self, edge: Edge) -> bool:  # noqa: PLR0911  # one return per kind
        """Whether records must be repartitioned between these two nodes."""
        node = self.nodes[edge.child]
        if self.kinds[edge.parent] != STREAM:
            return False
        if isinstance(node, nodes.Repartition | nodes.GroupBy):
            return True
        if not self.rekeyed[edge.parent]:
            return False
        if isinstance(node, nodes.GroupByKey | nodes.ToTable | nodes.Deduplicate):
            return True
        if isinstance(node, _JOINS):
            return self.kinds[node.other] != GLOBAL
        if isinstance(node, nodes.Process):
            return bool(node.stores) and not node.low_level
        return isinstance(node, nodes.ProcessValues) and bool(node.stores)

    def keeps_null(self, edge: Edge) -> bool:
        """Whether records without a key are passed on too."""
        node = self.nodes[edge.child]
        if isinstance(node, nodes.LeftJoin | nodes.OuterJoin | nodes.Process | nodes.ProcessValues):
            return True
        return self.relaxed[edge.child] or (isinstance(node, nodes.Deduplicate) and node.function is not None)

    def stores_of(self, at: int) -> tuple[str, ...]:
        """Return the stores that a processor uses."""
        return tuple(getattr(self.nodes[at], "stores", ()))

    def children(self, at: int) -> list[int]:
        """Return the children of a node."""
        return [edge.child for edges in self.edges for edge in edges if edge.parent == at]

    def foreign_key(self, at: int) -> bool:
        """Whether it is a foreign-key join."""
        return isinstance(self.nodes[at], _JOINS) and getattr(self.nodes[at], "foreign_key", None) is not None

    def of_streams(self, at: int) -> bool:
        """Whether it is a stream-stream join."""
        node = self.nodes[at]
        return isinstance(node, _JOINS) and self.kinds[node.parent] == STREAM and self.kinds[node.other] == STREAM

    def _kind(self, at: int, node: Node) -> str:  # noqa: PLR0911  # one return per kind
        if isinstance(node, nodes.StateStore | nodes.GlobalStore):
            return STORE
        if isinstance(node, nodes.GlobalTable):
            return GLOBAL
        above = self.kinds[self.edges[at][0].parent] if self.edges[at] else STREAM
        if isinstance(node, nodes.Table | nodes.ToTable | nodes.Count | nodes.Reduce | nodes.Aggregate):
            return TABLE
        if isinstance(node, nodes.TransformValues):
            return TABLE
        if isinstance(node, nodes.GroupBy | nodes.GroupByKey):
            return GROUPED_TABLE if above == TABLE else GROUPED
        if isinstance(node, _SHAPED):
            return GROUPED
        if isinstance(node, nodes.ToStream):
            return STREAM
        return above

    def _is_rekeyed(self, at: int, node: Node) -> bool:
        if isinstance(node, _REKEYING):
            return True
        if isinstance(node, nodes.Process):
            return not node.low_level
        if isinstance(node, _JOINS):
            return self.kinds[node.other] == GLOBAL and self.rekeyed[node.parent]
        if self.kinds[at] != STREAM or isinstance(node, nodes.ToStream | nodes.Repartition | nodes.Deduplicate):
            return False
        return any(self.rekeyed[edge.parent] for edge in self.edges[at])

    def _relaxed(self) -> list[bool]:
        """Find the nodes upstream of a join that accepts records without a key."""
        relaxed = [False] * len(self.nodes)
        for at in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[at]
            takes = isinstance(node, nodes.LeftJoin | nodes.OuterJoin) and self.kinds[at] == STREAM
            relaxed[at] |= takes
            if not relaxed[at]:
                continue
            for edge in self.edges[at]:
                table_side = isinstance(node, _JOINS) and edge.slot == "other" and self.kinds[edge.parent] != STREAM
                relaxed[edge.parent] |= not table_side
        return relaxed


def _edges(at: int, node: Node) -> Iterator[Edge]:
    parent, other = getattr(node, "parent", None), getattr(node, "other", None)
    for above in parent if isinstance(parent, tuple) else () if parent is None else (parent,):
        yield Edge(at, "parent", above)
    if other is not None:
        yield Edge(at, "other", other)


def kept_by(node: Node) -> tuple[str, ...]:
    """Return the names of the stores that a node keeps, if the user named them."""
    if isinstance(node, nodes.StateStore | nodes.GlobalStore):
        return (node.store,)
    kept = getattr(node, "materialized", None)
    return () if kept is None or kept.store is None else (kept.store,)
