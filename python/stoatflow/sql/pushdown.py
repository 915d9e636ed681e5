"""Predicate pushdown: which conditions of a query the stores can evaluate without changing its result.

Takes a query's tree and what is known about its stores. Returns, for each reference to a store, conditions that all
relevant rows meet. DuckDB applies the whole query to the rows that were read, so leaving a condition out is always
correct.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from stoatflow.sql import tree
from stoatflow.sql.store_schema import Column, StoreSchema
from stoatflow.sql.tree import Node

__all__ = ["Condition", "Place", "limit_of", "places", "used_names"]

_COMPARED = {
    "COMPARE_EQUAL": ("=", "="),
    "COMPARE_LESSTHAN": ("<", ">"),
    "COMPARE_GREATERTHAN": (">", "<"),
    "COMPARE_LESSTHANOREQUALTO": ("<=", ">="),
    "COMPARE_GREATERTHANOREQUALTO": (">=", "<="),
}
_PREFIXES = {"~~", "starts_with", "^@", "prefix"}
_CONTAINS = {"list_contains", "array_contains", "list_has", "array_has"}


class Condition(NamedTuple):
    """A comparison of a column with constants."""

    column: Column
    how: str
    """`=`, `<`, `<=`, `>`, `>=`, `in`, `like`, `prefix`, `contains`, `is null` or `is not null`."""
    constants: tuple[Node, ...] = ()


@dataclass(eq=False)
class Place:
    """A reference to a store in a query."""

    store: str
    alias: str
    known: StoreSchema
    node: Node
    conditions: list[Condition] = field(default_factory=list)
    parts: int = 0
    """Number of parts of WHERE that these conditions cover completely."""


class _Side(NamedTuple):
    """A part of FROM: the stores that it names, and those of them that WHERE may filter."""

    named: list[Place]
    open: list[Place]


class _Rule(NamedTuple):
    """Parts of a condition, the places whose columns they can name, and the places that they may filter."""

    parts: list[Node]
    scope: list[Place]
    open: list[Place]


class _Equal(NamedTuple):
    """Columns that are equal in all relevant rows: a filter on one applies to the other."""

    one: Place
    a: Column
    other: Place
    b: Column


def places(query: Node, known: Mapping[str, StoreSchema], *, push: bool = True) -> list[Place]:
    """Return all references to stores in a query, with the conditions that apply there."""
    made: dict[int, Place] = {}
    for node in tree.tables(query):
        store = next((name for name in known if name.casefold() == node["table_name"].casefold()), None)
        if store is not None:
            made[id(node)] = Place(store, node["alias"] or node["table_name"], known[store], node)
    if not push:
        return list(made.values())
    aliases = {str(node.get(name)).casefold() for node in tree.walk(query) for name in ("alias", "table_name")}
    for node in tree.walk(query):
        if node.get("type") == "SELECT_NODE" and node.get("from_table") and not node.get("sample"):
            _Select(node, made, aliases).push()
    return list(made.values())


class _Select:
    """One SELECT."""

    def __init__(self, node: Node, made: Mapping[int, Place], aliases: set[str]) -> None:
        self._node = node
        self._made = made
        self._aliases = aliases
        self._rules: list[_Rule] = []
        self._equal: list[_Equal] = []
        self._using: set[str] = set()

    def push(self) -> None:
        """Assign conditions to the places of FROM."""
        side = self._side(self._node["from_table"])
        where = list(tree.conjuncts(self._node.get("where_clause")))
        self._rules.append(_Rule(where, side.named, side.open))
        for rule in self._rules:
            for part in rule.parts:
                self._apply(part, rule)
                self._pair(part, rule.scope, rule.open, rule.open)
        _spread(self._equal)

    def _side(self, node: Node) -> _Side:
        place = self._made.get(id(node))
        if place is not None:
            plain = not node.get("sample") and not node.get("column_name_alias")
            return _Side([place], [place] if plain else [])
        if node.get("type") != "JOIN":
            return _Side([], [])
        left, right = self._side(node["left"]), self._side(node["right"])
        named = left.named + right.named
        # The columns of a natural join depend on the existing columns, and so on rows.
        if node["ref_type"] not in {"REGULAR", "CROSS"} or node.get("sample"):
            return _Side(named, [])
        return _Side(named, self._joined(node, named, left.open, right.open))

    def _joined(self, node: Node, named: list[Place], left: list[Place], right: list[Place]) -> list[Place]:
        """Note the condition of a join; return the places that later conditions may filter."""
        kind = node["join_type"]
        parts = list(tree.conjuncts(node.get("condition")))
        self._using |= {name.casefold() for name in node["using_columns"]}
        # Places that the join's condition may filter, and places that a later condition may filter.
        within, behind = {
            "INNER": (left + right, left + right),
            "SEMI": (left + right, left),
            "LEFT": (right, left),
            "ANTI": (right, left),
            "RIGHT": (left, right),
        }.get(kind, ([], []))
        self._rules.append(_Rule(parts, named, within))
        # Rows that match only excluded rows can be excluded too, also on the side that may be absent.
        sources, targets = (right, left) if kind == "RIGHT" else (left, right)
        if behind:
            for part in parts:
                self._pair(part, named, sources, targets)
        for name in node["using_columns"] if behind else ():
            for one, other in ((a, b) for a in sources for b in targets):
                self._match(one, one.known.column([name]), other, other.known.column([name]), both=kind == "INNER")
        return behind

    def _pair(self, part: Node, scope: list[Place], sources: list[Place], targets: list[Place]) -> None:
        """Note that two columns are equal, if the condition says so."""
        if part.get("type") != "COMPARE_EQUAL" or "left" not in part:
            return
        one, other = self._found(part["left"], scope), self._found(part["right"], scope)
        if len(one) != 1 or len(other) != 1:
            return
        for (a, a_column), (b, b_column) in ((one[0], other[0]), (other[0], one[0])):
            if a in sources and b in targets:
                self._match(a, a_column, b, b_column, both=False)

    def _match(self, one: Place, a: Column | None, other: Place, b: Column | None, *, both: bool) -> None:
        # For other kinds DuckDB converts one side, so values that are not identical may be equal.
        if a and b and a.kind == b.kind and a.kind in {"text", "int"}:
            self._equal.append(_Equal(one, a, other, b))
            if both:
                self._equal.append(_Equal(other, b, one, a))

    def _found(self, node: Node, scope: list[Place]) -> list[tuple[Place, Column]]:
        """Return the columns to which a name may refer."""
        names = tree.column(node)
        if names is None:
            return []
        named = [place for place in scope if place.alias.casefold() == names[0].casefold()]
        if len(names) > 1 and (named or names[0].casefold() in self._aliases):
            scope, names = named, names[1:]
        found = [(place, column) for place in scope if (column := place.known.column(names))]
        merged = len(names) == 1 and names[0].casefold() in self._using
        return found if len(found) == 1 or merged else []

    def _apply(self, part: Node, rule: _Rule) -> None:
        for place, conditions in self._conditions(part, rule.scope):
            if place in rule.open:
                place.conditions += conditions
                place.parts += 1

    def _conditions(self, part: Node, scope: list[Place]) -> Iterable[tuple[Place, list[Condition]]]:
        comparisons = _comparisons(part)
        if not comparisons:
            return
        for place, column in self._found(comparisons[0].of, scope):
            yield place, [Condition(column, each.how, each.constants) for each in comparisons]


class _Comparison(NamedTuple):
    """What a part of a condition says about a column."""

    of: Node
    how: str
    constants: tuple[Node, ...] = ()


def _comparisons(part: Node) -> list[_Comparison]:
    """Parse a part of a condition; empty if it is of no known form."""
    kind = part.get("type", "")
    if kind in _COMPARED and "left" in part:
        how, turned = _COMPARED[kind]
        return _of(part["left"], how, [part["right"]]) or _of(part["right"], turned, [part["left"]])
    read = _READ.get(kind)
    return read(part) if read else _of(part, "true", [])


def _between(part: Node) -> list[_Comparison]:
    low, high = _of(part["input"], ">=", [part["lower"]]), _of(part["input"], "<=", [part["upper"]])
    return low + high if low and high else []


def _function(part: Node) -> list[_Comparison]:
    given, name = tree.arguments(part), part["function_name"]
    if len(given) != 2 or name not in _PREFIXES | _CONTAINS:
        return []
    how = "contains" if name in _CONTAINS else "like" if name == "~~" else "prefix"
    return _of(given[0], how, given[1:])


def _either(part: Node) -> list[_Comparison]:
    """Parse `a = 1 OR a = 2 OR a IN (3, 4)`."""
    comparisons = [_comparisons(each) for each in part["children"]]
    if any(len(each) != 1 or each[0].how not in {"=", "in"} for each in comparisons):
        return []
    names = {tuple(name.casefold() for name in tree.column(each[0].of) or ()) for each in comparisons}
    if len(names) != 1:
        return []
    return _of(comparisons[0][0].of, "in", [constant for each in comparisons for constant in each[0].constants])


def _of(column: Node, how: str, constants: list[Node]) -> list[_Comparison]:
    if tree.column(column) is None or not all(tree.is_constant(each) for each in constants):
        return []
    return [_Comparison(column, how, tuple(constants))]


_READ: dict[str, Callable[[Node], list[_Comparison]]] = {
    "COMPARE_BETWEEN": _between,
    "COMPARE_IN": lambda part: _of(part["children"][0], "in", part["children"][1:]),
    "OPERATOR_IS_NULL": lambda part: _of(part["children"][0], "is null", []),
    "OPERATOR_IS_NOT_NULL": lambda part: _of(part["children"][0], "is not null", []),
    "CONJUNCTION_OR": _either,
    "FUNCTION": _function,
}


def _spread(equal: list[_Equal]) -> None:
    """Copy the conditions of a column to columns that are equal to it."""
    grown = True
    while grown:
        grown = False
        for one, a, other, b in equal:
            for condition in [each for each in one.conditions if each.column == a]:
                same = condition._replace(column=b)
                if same not in other.conditions:
                    other.conditions.append(same)
                    grown = True


def limit_of(query: Node, found: list[Place]) -> list[Node] | None:
    """Return LIMIT and OFFSET, if the query needs no more than that many rows that meet the conditions."""
    if len(found) != 1 or query.get("type") != "SELECT_NODE" or query["from_table"] is not found[0].node:
        return None
    limit = query["modifiers"][0] if len(query["modifiers"]) == 1 else {}
    plain = (
        limit.get("type") == "LIMIT_MODIFIER"
        and limit.get("limit_type", "ROW_COUNT") == "ROW_COUNT"
        and not any(query.get(each) for each in ("group_expressions", "group_sets", "having", "qualify", "sample"))
        and not found[0].node.get("sample")
        and all(
            tree.column(each) or (each["class"] == "STAR" and not each.get("columns")) for each in query["select_list"]
        )
        and sum(1 for _ in tree.conjuncts(query.get("where_clause"))) == found[0].parts
    )
    bounds = [limit.get("limit"), limit.get("offset")] if plain else []
    counts = [each for each in bounds if each]
    return counts if counts and limit.get("limit") and all(tree.is_constant(each) for each in counts) else None


def used_names(query: Node, found: list[Place]) -> set[str] | None:
    """Return the names in a query, in lower case; `None` if it may use columns that it doesn't name."""
    names: set[str] = set()
    aliases = {place.alias.casefold() for place in found}
    for node in tree.walk(query):
        whole = len(tree.column(node) or ()) == 1 and node["column_names"][0].casefold() in aliases
        if node.get("class") == "STAR" or whole or node.get("ref_type") == "NATURAL":
            return None
        if node.get("column_name_alias") and node.get("type") == "BASE_TABLE":
            return None
        names.update(name.casefold() for name in tree.column(node) or ())
        names.update(name.casefold() for name in node.get("using_columns") or ())
    return names
