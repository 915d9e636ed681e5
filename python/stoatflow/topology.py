"""A finished topology: checked once, then only read.

Takes nodes, crosses the border once to have them checked, gives texts and what the engine needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stoatflow import _bridge
from stoatflow.plan import Node, encode

if TYPE_CHECKING:
    from stoatflow._bridge import Plan
    from stoatflow.serdes import Serde


class Topology:
    """What `StreamsBuilder.build()` gives and `StoatFlow` runs. It can run any number of times."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        """Check the nodes; raise `TopologyError` for what is wrong."""
        self._encoded = encode(nodes)
        self._plan = _bridge.compile_plan(self._encoded)

    @property
    def plan(self) -> Plan:
        """What the engine runs."""
        return self._plan

    def custom_serde(self, index: int) -> Serde[Any]:
        """Give a serde of the user by its index in the plan."""
        return self._encoded.serdes[index]

    def describe(self) -> str:
        """Give the text of Kafka Streams' `topology.describe()`."""
        return self._plan.description

    def to_json(self) -> str:
        """Give the plan as it crossed the border."""
        return self._encoded.json

    def __repr__(self) -> str:
        """Show its size."""
        return f"<Topology of {len(self._encoded.data['nodes'])} nodes>"
