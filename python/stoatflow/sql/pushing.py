"""Which conditions of a query can be left to the stores: those that only spare rows that can't be in the answer.

Takes a query's tree and what is known of its stores. Gives, for each place that names a store, conditions that all rows
which matter there meet. DuckDB applies the whole query to what was read, so leaving a condition out is always right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from stoatflow.sql import tree
from stoatflow.sql.known import Column, Known
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
    """A place in a query that names a store."""

    store: str
    alias: str
    known: Known
    node: Node
    conditions: list[Condition] = field(default_factory=list)
    parts: int = 0
    """So many parts of WHERE these conditions say whole."""


class _Side(NamedTuple):
    """A part of FROM: what it names, and what of that may be filtered as WHERE says."""

    named: list[Place]
    open: list[Place]


class _Rule(NamedTuple):
    """Parts of a condition, the places whose columns they can name, and those that they may filter."""

    parts: list[Node]
    scope: list[Place]
    open: list[Place]


class _Equal(NamedTuple):
    """Columns that are equal in all rows that matter: what filters the one may filter the other."""

    one: Place
    a: Column
    other: Place
    b: Column


def places(query: Node, known: Mapping[str, Known], *, push: bool = True) -> list[Place]:
    """Return all places of a query that name a store, with the conditions that hold there."""
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
        """Return the places of FROM their conditions."""
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
        # What a natural join compares depends on the columns that there are, so on rows.
        if node["ref_type"] not in {"REGULAR", "CROSS"} or node.get("sample"):
            return _Side(named, [])
        return _Side(named, self._joined(node, named, left.open, right.open))

    def _joined(self, node: Node, named: list[Place], left: list[Place], right: list[Place]) -> list[Place]:
        """Note what a join says; return what may be filtered behind it."""
        kind = node["join_type"]
        parts = list(tree.conjuncts(node.get("condition")))
        self._using |= {name.casefold() for name in node["using_columns"]}
        # What may be filtered as the join's condition says, and what as a condition behind it says.
        within, behind = {
            "INNER": (left + right, left + right),
            "SEMI": (left + right, left),
            "LEFT": (right, left),
            "ANTI": (right, left),
            "RIGHT": (left, right),
        }.get(kind, ([], []))
        self._rules.append(_Rule(parts, named, within))
        # Rows that only match rows which are left out can be left out too, also of the side that
        # may be absent.
        sources, targets = (right, left) if kind == "RIGHT" else (left, right)
        if behind:
            for part in parts:
                self._pair(part, named, sources, targets)
        for name in node["using_columns"] if behind else ():
            for one, other in ((a, b) for a in sources for b in targets):
                self._match(one, one.known.column([name]), other, other.known.column([name]), both=kind == "INNER")
        return behind

    def _pair(self, part: Node, scope: list[Place], sources: list[Place], targets: list[Place]) -> None:
        """Note that two columns are equal, if that is what it says."""
        if part.get("type") != "COMPARE_EQUAL" or "left" not in part:
            return
        one, other = self._found(part["left"], scope), self._found(part["right"], scope)
        if len(one) != 1 or len(other) != 1:
            return
        for (a, a_column), (b, b_column) in ((one[0], other[0]), (other[0], one[0])):
            if a in sources and b in targets:
                self._match(a, a_column, b, b_column, both=False)

    def _match(self, one: Place, a: Column | None, other: Place, b: Column | None, *, both: bool) -> None:
        # Of other kinds DuckDB converts one side, and then more is equal than is the same.
        if a and b and a.kind == b.kind and a.kind in {"text", "int"}:
            self._equal.append(_Equal(one, a, other, b))
            if both:
                self._equal.append(_Equal(other, b, one, a))

    def _found(self, node: Node, scope: list[Place]) -> list[tuple[Place, Column]]:
        """Return the columns that a name may mean."""
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
        said = _said(part)
        if not said:
            return
        for place, column in self._found(said[0].of, scope):
            yield place, [Condition(column, each.how, each.constants) for each in said]


class _Said(NamedTuple):
    """What a part of a condition says of a column."""

    of: Node
    how: str
    constants: tuple[Node, ...] = ()


def _said(part: Node) -> list[_Said]:
    """Read a part of a condition; nothing if it says something else."""
    kind = part.get("type", "")
    if kind in _COMPARED and "left" in part:
        how, turned = _COMPARED[kind]
        return _of(part["left"], how, [part["right"]]) or _of(part["right"], turned, [part["left"]])
    read = _READ.get(kind)
    return read(part) if read else _of(part, "true", [])


def _between(part: Node) -> list[_Said]:
    low, high = _of(part["input"], ">=", [part["lower"]]), _of(part["input"], "<=", [part["upper"]])
    return low + high if low and high else []


def _function(part: Node) -> list[_Said]:
    given, name = tree.arguments(part), part["function_name"]
    if len(given) != 2 or name not in _PREFIXES | _CONTAINS:
        return []
    how = "contains" if name in _CONTAINS else "like" if name == "~~" else "prefix"
    return _of(given[0], how, given[1:])


def _either(part: Node) -> list[_Said]:
    """`a = 1 OR a = 2 OR a IN (3, 4)`."""
    said = [_said(each) for each in part["children"]]
    if any(len(each) != 1 or each[0].how not in {"=", "in"} for each in said):
        return []
    names = {tuple(name.casefold() for name in tree.column(each[0].of) or ()) for each in said}
    if len(names) != 1:
        return []
    return _of(said[0][0].of, "in", [constant for each in said for constant in each[0].constants])


def _of(column: Node, how: str, constants: list[Node]) -> list[_Said]:
    if tree.column(column) is None or not all(tree.is_constant(each) for each in constants):
        return []
    return [_Said(column, how, tuple(constants))]


_READ: dict[str, Callable[[Node], list[_Said]]] = {
    "COMPARE_BETWEEN": _between,
    "COMPARE_IN": lambda part: _of(part["children"][0], "in", part["children"][1:]),
    "OPERATOR_IS_NULL": lambda part: _of(part["children"][0], "is null", []),
    "OPERATOR_IS_NOT_NULL": lambda part: _of(part["children"][0], "is not null", []),
    "CONJUNCTION_OR": _either,
    "FUNCTION": _function,
}


def _spread(equal: list[_Equal]) -> None:
    """What holds for a column holds for one that is equal to it."""
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
    """Return LIMIT and OFFSET, if so many rows that meet the conditions are all that the query needs."""
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
    """Return the names that a query says, in small letters; nothing if it may mean columns that it doesn't name."""
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
