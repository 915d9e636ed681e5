"""Finds steps whose results nothing reads, because `.to(...)` was forgotten.

Takes the physical plan, returns the nodes. Pure. Only steps that do nothing else are found: an aggregation fills a
store, and `peek`, `foreach` and processors have effects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["Unused", "unused"]

_PURE = {
    "filter", "filter_not", "flat_map", "flat_map_values", "map", "map_batches", "map_values", "select_key",
    "stream_table_join", "to_stream",
}  # fmt: skip


class Unused(NamedTuple):
    """A step whose results are lost."""

    op: str
    node: str
    line: str


def unused(plan: Mapping[str, Any]) -> list[Unused]:
    """Return the steps with results that nothing reads, in the order of the topology."""
    nodes = [node for node in plan["nodes"] if not node["children"] and node["op"]["op"] in _PURE]
    return [Unused(node["op"]["op"], node["name"], node["line"]) for node in nodes]
