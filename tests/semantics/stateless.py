"""Stateless stream operators: each as a function of one record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from semantics.nodes import Call, Function, Node
from semantics.values import Record


def keep(predicate: Function, *, matching: bool = True) -> Callable[[Record], list[Record]]:
    """`filter` and `filter_not`. Null keys and values are passed to the predicate."""
    return lambda r: [r] if bool(predicate(r.key, r.value)) is matching else []


def map_pairs(fn: Function) -> Callable[[Record], list[Record]]:
    """`map`."""

    def mapped(r: Record) -> list[Record]:
        key, value = fn(r.key, r.value)
        return [r.but(key=key, value=value)]

    return mapped


def map_values(fn: Function) -> Callable[[Record], list[Record]]:
    """`map_values`. A stream's null values are mapped too (a table's are not)."""
    return lambda r: [r.but(value=fn(r.key, r.value))]


def flat_map(fn: Function) -> Callable[[Record], list[Record]]:
    """`flat_map`."""
    return lambda r: [r.but(key=key, value=value) for key, value in fn(r.key, r.value)]


def flat_map_values(fn: Function) -> Callable[[Record], list[Record]]:
    """`flat_map_values`."""
    return lambda r: [r.but(value=value) for value in fn(r.key, r.value)]


def select_key(fn: Function) -> Callable[[Record], list[Record]]:
    """`select_key`; null is a key like any other until something groups by it."""
    return lambda r: [r.but(key=fn(r.key, r.value))]


def peek(fn: Function) -> Callable[[Record], list[Record]]:
    """`peek`."""

    def peeked(r: Record) -> list[Record]:
        fn(r.key, r.value)
        return [r]

    return peeked


OPERATORS: dict[str, Callable[[Any], Callable[[Record], list[Record]]]] = {
    "map": map_pairs,
    "map_values": map_values,
    "flat_map": flat_map,
    "flat_map_values": flat_map_values,
    "select_key": select_key,
    "peek": peek,
}
REKEYING = frozenset({"map", "flat_map", "select_key", "process"})
"""Operators after which the next one that needs the key sends records through a topic."""


class Branches(Node):
    """`split`: the first branch that matches gets the record; without a default, unmatched ones are dropped."""

    def __init__(self, predicates: list[Function]) -> None:
        super().__init__()
        self.predicates = predicates

    def process(self, record: Record) -> None:
        for predicate, branch in zip(self.predicates, self.children, strict=True):
            if predicate(record.key, record.value):
                branch.process(record)
                return


def not_null_key(node: Node) -> Node:
    """Drop null keys, as `repartition`, `group_by` and `to_table` do."""
    return node.then(Call(lambda r: [] if r.key is None else [r]))
