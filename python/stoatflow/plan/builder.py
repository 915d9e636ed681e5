"""The growing list of DSL calls, and the base class of all DSL objects.

Owns the order of calls: Kafka Streams numbers its generated names in this order.
"""

from __future__ import annotations

import threading

from stoatflow._dsl.java_names import JavaNames
from stoatflow.errors import TopologyError
from stoatflow.plan.node_base import Node


class PlanBuilder:
    """Nodes in the order of their calls."""

    def __init__(self) -> None:
        """Start empty."""
        self._nodes: list[Node] = []
        self._lock = threading.Lock()

    def add(self, node: Node) -> int:
        """Append a node and return its position."""
        # As in Kafka Streams, several threads may use one builder: each call must get its own position.
        with self._lock:
            self._nodes.append(node)
            return len(self._nodes) - 1

    def snapshot(self) -> tuple[Node, ...]:
        """Return the nodes so far; later calls don't change the result."""
        return tuple(self._nodes)


class Handle(JavaNames):
    """Base class of DSL objects: a position in a plan that later calls refer to."""

    __slots__ = ("_at", "_plan")

    def __init__(self, plan: PlanBuilder, at: int) -> None:
        """Created by DSL methods."""
        self._plan = plan
        self._at = at

    def __repr__(self) -> str:
        """Show the class, and the line that created it."""
        node = self._plan.snapshot()[self._at]
        return f"<{type(self).__name__} {node.name or node.op} ({node.line})>"


def same_plan(one: Handle, other: Handle, line: str, method: str) -> int:
    """Return the position of `other`; raise `TopologyError` if it belongs to another builder."""
    if one._plan is not other._plan:
        raise TopologyError(
            f"{line} {method}: the two streams come from different StreamsBuilder objects",
            next_step="build both streams with the same StreamsBuilder",
        )
    return other._at
