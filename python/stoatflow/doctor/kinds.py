"""Kinds of keys and values at each node, as far as serdes and operators define them.

Takes the nodes of a plan, returns a kind for the key and the value that each node emits. Never guesses: an unknown kind
is any JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from stoatflow.expressions import Expression
from stoatflow.plan import Node, nodes
from stoatflow.serdes import (
    AvroSerde,
    BuiltinSerde,
    JsonSchemaSerde,
    ProtobufSerde,
    Serde,
    SessionWindowedSerde,
    TimeWindowedSerde,
)

Kind: TypeAlias = Literal[
    "any", "bool", "number", "text", "list", "texts", "object", "made", "view", "record", "foreign", "bytes",
    "windowed", "windowed text", "windowed number",
]  # fmt: skip
"""`texts`: a list of texts. `view`: JSON that functions get as a view; `record`: the same for a value with a schema.
`made`: returned by a function, so of any Python type; `foreign`: read with a serde of the user. `windowed`: a windowed
key, if its key within is neither a text nor a number.
"""

_NAMES: dict[str, Kind] = {
    "string": "text", "int32": "number", "int64": "number", "double": "number", "bytes": "bytes", "json": "view",
}  # fmt: skip
WITHIN: dict[Kind, Kind] = {"windowed": "foreign", "windowed text": "text", "windowed number": "number"}
"""Kinds of windowed keys, with those of the keys within."""
_SAME = (
    nodes.Filter, nodes.FilterNot, nodes.Peek, nodes.Split, nodes.Branch, nodes.Suppress, nodes.GroupByKey,
    nodes.WindowedBy, nodes.EmitStrategyNode, nodes.Cogroup, nodes.Deduplicate, nodes.ToStream,
)  # fmt: skip
_OTHER_VALUE = (nodes.MapValues, nodes.FlatMapValues, nodes.MapBatches, nodes.ProcessValues, nodes.TransformValues)
_AGGREGATED = (nodes.Count, nodes.Reduce, nodes.Aggregate)

Side: TypeAlias = "tuple[Kind, Kind]"
_MADE: Side = ("made", "made")


def sides(plan: Sequence[Node]) -> list[Side]:
    """Return the kinds of key and value behind each node."""
    known: list[Side] = []
    for node in plan:
        known.append(_side(plan, known, node))
    return known


def of_serde(serde: Serde[object] | None, otherwise: Kind) -> Kind:
    """Return the kind of the values that a serde reads."""
    if serde is None:
        return otherwise
    if isinstance(serde, AvroSerde | ProtobufSerde) and serde.decode == "lazy" and serde.has_members:
        return "record"
    if isinstance(serde, JsonSchemaSerde) and serde.decode == "lazy":
        return _NAMES["json"]
    if isinstance(serde, TimeWindowedSerde | SessionWindowedSerde):
        return _windowed(of_serde(serde.inner, "any"))
    if not isinstance(serde, BuiltinSerde):
        return "foreign"
    # Plain dicts are JSON too, but functions may modify them.
    return _NAMES.get(serde.name, "any")


def _windowed(within: Kind) -> Kind:
    """Return the kind of windowed keys, by that of the keys within."""
    return "windowed text" if within == "text" else "windowed number" if within == "number" else "windowed"


def _side(plan: Sequence[Node], known: Sequence[Side], node: Node) -> Side:
    if isinstance(node, nodes.Stream | nodes.Table | nodes.GlobalTable):
        return of_serde(node.key, "any"), of_serde(node.value, "any")
    parent = getattr(node, "parent", None)
    if not isinstance(parent, int):
        return _MADE
    key, value = known[parent]
    if isinstance(node, _SAME):
        made: Side = (key, value)
    elif isinstance(node, nodes.Repartition | nodes.ToTable):
        made = (key, value)
    elif isinstance(node, nodes.Merge):
        made = _both((key, value), known[node.other])
    elif isinstance(node, _OTHER_VALUE):
        made = (key, _result(node))
    elif isinstance(node, nodes.SelectKey):
        made = (_result(node), value)
    elif isinstance(node, nodes.GroupBy):
        made = _grouped(plan, node, value)
    elif isinstance(node, _AGGREGATED):
        made = _aggregated(plan, node, key, value)
    else:
        made = (key, _result(node)) if isinstance(node, nodes.Joining) else _MADE
    return made


def _result(node: Node) -> Kind:
    """Return the kind of the function's result."""
    return "any" if isinstance(getattr(node, "function", None), Expression) else "made"


def _both(one: Side, other: Side) -> Side:
    key, value = (a if a == b else "made" for a, b in zip(one, other, strict=True))
    return key, value


def _grouped(plan: Sequence[Node], node: nodes.GroupBy, value: Kind) -> Side:
    key = of_serde(node.key, _result(node))
    return (key, of_serde(node.value, _result(node))) if is_table(plan, node.parent) else (key, value)


def _aggregated(plan: Sequence[Node], node: Node, key: Kind, value: Kind) -> Side:
    above: Node = node
    while isinstance(parent := getattr(above, "parent", None), int):
        above = plan[parent]
        if isinstance(above, nodes.WindowedBy):
            return _windowed(key), "number" if isinstance(node, nodes.Count) else "made"
        if not isinstance(above, nodes.Cogroup | nodes.EmitStrategyNode):
            break
    if isinstance(node, nodes.Count):
        return key, "number"
    return key, value if isinstance(node, nodes.Reduce) else kept(node)


def kept(node: Node) -> Kind:
    """Return the kind of an aggregate, which is read from its store, or is still as the function returned it."""
    materialized = getattr(node, "materialized", None)
    serde = None if materialized is None else materialized.value
    return of_serde(serde, "made")


def is_table(plan: Sequence[Node], at: int) -> bool:
    """Whether this node's result is a table."""
    node = plan[at]
    if isinstance(node, nodes.Filter | nodes.FilterNot | nodes.MapValues):
        return is_table(plan, node.parent)
    if isinstance(node, nodes.Joining):
        return node.window is None and is_table(plan, node.parent)
    tables = (nodes.Table, nodes.ToTable, nodes.TransformValues, nodes.Suppress, *_AGGREGATED)
    return isinstance(node, tables)
