"""Recognizes aggregators that are native aggregations: sums, counts, lists, and objects of these.

Takes the functions of an `aggregate`, returns `sf.sum(...)` or another aggregation, or nothing. Compares the source
with the definition of each aggregation, part by part: only `a + x` that starts at 0 is a sum.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable
from typing import Any

from stoatflow import aggregations
from stoatflow.aggregations import Aggregation
from stoatflow.doctor.difference import Difference
from stoatflow.doctor.part import NotAnExpression
from stoatflow.doctor.source import Written, written
from stoatflow.doctor.translate import Translator

_EMPTY: tuple[Callable[[], Any], ...] = (int, list, dict)


def aggregation(
    translator: Translator, adder: Written, initializer: Callable[..., Any], others: dict[str, Callable[..., Any]]
) -> Aggregation[Any] | None:
    """Return the aggregation that the functions implement; `others` holds `subtractor` and `merger`, if given."""
    start = _start(initializer)
    body = _result(adder)
    if start is None or body is None or len(adder.parameters) < 3:
        return None
    so_far = ast.Name(adder.parameters[2])
    try:
        found = _measure(translator, body, so_far, start)
    except NotAnExpression:
        return None
    if found is None or not all(_undoes(body, adder, name, other) for name, other in others.items()):
        return None
    translator.say(Difference.STORED)
    return found


def _start(initializer: Callable[..., Any]) -> ast.expr | None:
    """Return the initial value."""
    if initializer in _EMPTY:
        return ast.parse(repr(initializer()), mode="eval").body
    found = written(initializer) if isinstance(initializer, types.FunctionType) else None
    return None if found is None else _result(found)


def _result(function: Written) -> ast.expr | None:
    """Return the returned expression, if the function does nothing else."""
    body = [each for each in function.body if not _is_text(each)]
    only = body[0] if len(body) == 1 else None
    return only.value if isinstance(only, ast.Return) else None


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _measure(t: Translator, body: ast.expr, so_far: ast.expr, start: ast.expr) -> Aggregation[Any] | None:
    if isinstance(start, ast.Dict):
        return _several(t, body, so_far, start)
    if isinstance(start, ast.List) and not start.elts:
        return _list(t, _appended(body, so_far), so_far)
    is_zero = isinstance(start, ast.Constant) and type(start.value) is int and start.value == 0
    return _sum(t, _added(body, so_far)) if is_zero else None


def _list(t: Translator, item: ast.expr | None, so_far: ast.expr) -> Aggregation[Any] | None:
    if item is None or _reads(item, so_far):
        return None
    of = t.value(item)
    if of.none:
        t.say(Difference.LEFT_OUT)
    return aggregations.collect(of.expression)


def _sum(t: Translator, added: ast.expr | None) -> Aggregation[Any] | None:
    if isinstance(added, ast.Constant) and type(added.value) is int and added.value == 1:
        return aggregations.count()
    of = None if added is None else t.value(added)
    if of is None or of.kind not in ("any", "number") or of.expression.is_literal:
        return None
    t.say(Difference.LEFT_OUT)
    return aggregations.sum(of.expression)


def _several(t: Translator, body: ast.expr, so_far: ast.expr, start: ast.Dict) -> Aggregation[Any] | None:
    names, wanted = _names(start), _names(body)
    if not names or names != wanted or not isinstance(body, ast.Dict):
        return None
    members: dict[str, Aggregation[Any]] = {}
    for name, part, begin in zip(names, body.values, start.values, strict=True):
        one = None if isinstance(begin, ast.Dict) else _measure(t, part, _member(so_far, name), begin)
        if one is None:
            return None
        members[name] = one
    return aggregations.agg(members)


def _names(node: ast.expr) -> list[str] | None:
    keys = node.keys if isinstance(node, ast.Dict) else []
    names = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    return names if len(names) == len(keys) == len(set(names)) else None


def _member(of: ast.expr, name: str) -> ast.expr:
    return ast.Subscript(of, ast.Constant(name))


def _added(body: ast.expr, so_far: ast.expr) -> ast.expr | None:
    """Return the `x` of `a + x` and `x + a`."""
    if not isinstance(body, ast.BinOp) or not isinstance(body.op, ast.Add):
        return None
    for one, other in ((body.left, body.right), (body.right, body.left)):
        if _same(one, so_far) and not _reads(other, so_far):
            return other
    return None


def _appended(body: ast.expr, so_far: ast.expr) -> ast.expr | None:
    """Return the `x` of `a + [x]` and `[*a, x]`."""
    if isinstance(body, ast.BinOp) and isinstance(body.op, ast.Add) and _same(body.left, so_far):
        right = body.right
        return right.elts[0] if isinstance(right, ast.List) and len(right.elts) == 1 else None
    if isinstance(body, ast.List) and len(body.elts) == 2:
        first, item = body.elts
        if isinstance(first, ast.Starred) and _same(first.value, so_far) and not isinstance(item, ast.Starred):
            return item
    return None


def _reads(node: ast.expr, so_far: ast.expr) -> bool:
    names = {each.id for each in ast.walk(so_far) if isinstance(each, ast.Name)}
    return any(isinstance(each, ast.Name) and each.id in names for each in ast.walk(node))


def _same(one: ast.AST, other: ast.AST) -> bool:
    """Whether both have the same source, apart from load and store context."""
    return ast.unparse(one) == ast.unparse(other)


def _undoes(body: ast.expr, adder: Written, which: str, other: Callable[..., Any]) -> bool:
    """Whether the other function fits: it subtracts what this one adds, or merges two of its results."""
    found = written(other)
    result = None if found is None else _result(found)
    if found is None or result is None or len(found.parameters) != len(adder.parameters):
        return False
    if which == "subtractor":
        renamed = dict(zip(found.parameters, adder.parameters, strict=True))
        return _same(_renamed(result, renamed), _Minus().visit(_copy(body)))
    if which != "merger":
        return False
    first, second = (ast.Name(name) for name in found.parameters[1:3])
    return _is_sum_of(result, first, second)


def _is_sum_of(node: ast.expr, first: ast.expr, second: ast.expr) -> bool:
    names = _names(node)
    if isinstance(node, ast.Dict) and names:
        parts = zip(names, node.values, strict=True)
        return all(_is_sum_of(part, _member(first, name), _member(second, name)) for name, part in parts)
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return False
    return _same(node.left, first) and _same(node.right, second)


class _Minus(ast.NodeTransformer):
    """Turns sums into differences, but not within the added expressions."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:  # the name in `ast`
        return ast.BinOp(node.left, ast.Sub(), node.right) if isinstance(node.op, ast.Add) else node


def _copy(node: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(node), mode="eval").body


def _renamed(node: ast.expr, names: dict[str, str]) -> ast.expr:
    fresh = _copy(node)
    for each in ast.walk(fresh):
        if isinstance(each, ast.Name):
            each.id = names.get(each.id, each.id)
    return fresh
