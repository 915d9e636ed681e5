"""A query as parsed by DuckDB: a tree of plain dicts.

Takes trees of `json_serialize_sql`; returns their parts. The names of nodes are DuckDB's, and differ a little between
its versions: unknown nodes are left unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

Node: TypeAlias = dict[str, Any]

FOLDED = {
    "+", "-", "*", "now", "get_current_timestamp", "to_timestamp", "epoch_ms", "make_timestamp", "make_timestamptz",
    "to_years", "to_months", "to_weeks", "to_days", "to_hours", "to_minutes", "to_seconds", "to_milliseconds", "trunc",
    "lower", "upper", "||", "list_value",
}  # fmt: skip
"""Functions that return the same for the same arguments within one query."""


def walk(tree: object) -> Iterator[Node]:
    """Yield all nodes of a tree, the outer ones first."""
    waiting: list[object] = [tree]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting.extend(reversed(each.values()))
        elif isinstance(each, list):
            waiting.extend(reversed(each))


def arguments(function: Node) -> list[Node]:
    """Return the arguments of a function."""
    named = function.get("arguments")
    return list(function.get("children", ())) if named is None else [each["expression"] for each in named]


def conjuncts(condition: Node | None) -> Iterator[Node]:
    """Yield the parts of a condition that must all be true."""
    if condition is None:
        return
    if condition.get("type") == "CONJUNCTION_AND":
        for part in condition["children"]:
            yield from conjuncts(part)
    else:
        yield condition


def column(node: Node) -> list[str] | None:
    """Return the parts of a column's name, with the table first if given."""
    return node["column_names"] if node.get("class") == "COLUMN_REF" else None


def is_constant(node: Node) -> bool:
    """Whether it is the same for all rows, and can be computed in advance."""
    if node.get("class") == "PARAMETER":
        return True
    for each in walk(node):
        kind = each.get("class")
        if kind == "FUNCTION" and each["function_name"] not in FOLDED:
            return False
        if kind not in {None, "CONSTANT", "CAST", "FUNCTION", "TYPE"}:
            return False
    return "class" in node


def common_tables(tree: Node) -> set[str]:
    """Return the names of `WITH`, in lower case."""
    names = {each["key"] for node in walk(tree) for each in (node.get("cte_map") or {}).get("map", ())}
    names |= {node["cte_name"] for node in walk(tree) if isinstance(node.get("cte_name"), str)}
    names |= {node["ctename"] for node in walk(tree) if isinstance(node.get("ctename"), str)}
    return {name.casefold() for name in names}


def tables(tree: Node) -> list[Node]:
    """Return the nodes that name a table."""
    return [node for node in walk(tree) if node.get("type") == "BASE_TABLE"]
