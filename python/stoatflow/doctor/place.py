"""Inputs and result of a function, by its place in a plan.

Takes a node and the field that holds the function, returns its parameters as expressions, and how its result is used.
Never examines the function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from stoatflow import expressions
from stoatflow.doctor.kinds import Kind, Side, is_table, kept
from stoatflow.doctor.part import Part
from stoatflow.plan import Node, nodes

Use: TypeAlias = Literal["value", "condition", "pair", "list", "no expression"]


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a function in a plan."""

    parameters: tuple[Part, ...]
    use: Use = "value"


def place(plan: Sequence[Node], known: Sequence[Side], at: int, field: str) -> Place | None:
    """Return the place, if the function's parameters are known there."""
    node = plan[at]
    parent = getattr(node, "parent", None)
    if not isinstance(parent, int):
        return None
    key, value = known[parent]
    record = (_leaf(expressions.key, key), _leaf(expressions.value, value))
    if isinstance(node, nodes.Joining):
        return _of_join(node, field, known, record)
    if isinstance(node, nodes.Reduce):
        return Place((_leaf(expressions.old, value), _leaf(expressions.new, value)))
    if isinstance(node, nodes.Aggregate | nodes.Cogroup):
        return _of_aggregate(node, field, known, record)
    return _of_stateless(plan, node, field, record)


def _of_stateless(plan: Sequence[Node], node: Node, field: str, record: tuple[Part, Part]) -> Place | None:
    if field != "function":
        # It also gets a context, which expressions can't use.
        context = _leaf(expressions.lit(None), "foreign")
        return Place((*record, context)) if field == "topic_function" else None
    if isinstance(node, nodes.Peek | nodes.Foreach | nodes.FlatMap):
        return Place(record, "no expression")
    if isinstance(node, nodes.Filter | nodes.FilterNot | nodes.Branch):
        return Place(record, "condition")
    if isinstance(node, nodes.MapValues | nodes.FlatMapValues):
        use: Use = "list" if isinstance(node, nodes.FlatMapValues) else "value"
        return Place(record if node.with_key else record[1:], use)
    if isinstance(node, nodes.Map) or (isinstance(node, nodes.GroupBy) and is_table(plan, node.parent)):
        return Place(record, "pair")
    return Place(record) if isinstance(node, nodes.GroupBy | nodes.SelectKey | nodes.Deduplicate) else None


def _of_join(node: nodes.Joining, field: str, known: Sequence[Side], record: tuple[Part, Part]) -> Place | None:
    if field == "key_function":
        return Place(record)
    if field == "foreign_key":
        return Place(record if node.foreign_with_key else record[1:])
    if field != "function":
        return None
    left = _leaf(expressions.left, known[node.parent][1])
    right = _leaf(expressions.right, known[node.other][1])
    return Place((record[0], left, right) if node.with_key else (left, right))


def _of_aggregate(node: Node, field: str, known: Sequence[Side], record: tuple[Part, Part]) -> Place | None:
    so_far = kept(node) if isinstance(node, nodes.Aggregate) else "made"
    if field == "merger":
        return Place((record[0], _leaf(expressions.left, so_far), _leaf(expressions.right, so_far)))
    if isinstance(node, nodes.Cogroup) and node.other is not None:
        key, value = known[node.other]
        record = (_leaf(expressions.key, key), _leaf(expressions.value, value))
    if field in ("function", "subtractor"):
        return Place((*record, _leaf(expressions.old, so_far)))
    return None


def _leaf(expression: expressions.Expression, kind: Kind) -> Part:
    # A key or a value may be null, wherever it is from.
    return Part(expression, kind, none=True)
