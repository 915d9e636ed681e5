"""Suggests an expression that can replace a function of a plan.

Takes the nodes of a plan and one of its functions, returns the text of the expression and the differences, or nothing.
A suggestion is tested: the plan compiles with it. Never changes the plan.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stoatflow import expressions
from stoatflow.aggregations import Aggregation
from stoatflow.doctor import fold
from stoatflow.doctor.difference import Difference
from stoatflow.doctor.kinds import Side
from stoatflow.doctor.part import NotAnExpression, Part, literal
from stoatflow.doctor.place import Place, place
from stoatflow.doctor.source import Written, written
from stoatflow.doctor.translate import Translator
from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression, lit
from stoatflow.plan import Node, Udf, encode, nodes

_LEAVES = (
    expressions.key, expressions.value, expressions.left, expressions.right, expressions.old, expressions.new,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The suggested source."""

    text: str
    """The expression."""
    instead: str
    """What it replaces, if not the function alone."""
    differences: tuple[str, ...]
    native: Expression | Aggregation[Any]


def suggest(plan: Sequence[Node], known: Sequence[Side], at: int, field: str) -> Suggestion | None:
    """Return the expression for a function, if there is one. `known` holds the kinds behind each node."""
    udf = getattr(plan[at], field)
    where = place(plan, known, at, field)
    function = written(udf.call) if isinstance(udf, Udf) else None
    if where is None or where.use == "no expression" or function is None or function.silent:
        return None
    try:
        return _tried(plan, at, field, _suggestion(plan[at], field, where, function))
    except (NotAnExpression, RecursionError):
        return None


def _suggestion(node: Node, field: str, where: Place, function: Written) -> Suggestion:
    translator = Translator(_leaves(where, function), function.resolve)
    if isinstance(node, nodes.Aggregate) and field == "function" and isinstance(node.initializer, Udf):
        others = {name: getattr(node, name) for name in ("subtractor", "merger")}
        calls = {name: other.call for name, other in others.items() if isinstance(other, Udf)}
        found = fold.aggregation(translator, function, node.initializer.call, calls)
        if found is not None:
            replaced = ["initializer", "aggregator", *calls]
            instead = f"instead of {', '.join(replaced[:-1])} and {replaced[-1]}"
            return Suggestion(repr(found), instead, translator.differences, found)
        translator = Translator(_leaves(where, function), function.resolve)
    made = _made(translator, where, function)
    if not _reads(made.expression):
        raise NotAnExpression
    text = repr(made.expression)
    if where.use == "pair":
        text = f"({', '.join(repr(part) for part in made.expression._args)})"
    return Suggestion(text, "", translator.differences, made.expression)


def _leaves(where: Place, function: Written) -> dict[str, Part]:
    """Return the parameters: parts of a record, and constants for those with a default."""
    names, count = function.parameters, len(where.parameters)
    if len(names) < count or any(name not in function.defaults for name in names[count:]):
        raise NotAnExpression
    constants = {name: literal(given) for name, given in function.defaults.items() if name not in names[:count]}
    return {**dict(zip(names, where.parameters, strict=False)), **constants}


def _made(translator: Translator, where: Place, function: Written) -> Part:
    if where.use == "pair":

        def pair(node: ast.expr) -> Part:
            if not isinstance(node, ast.Tuple) or len(node.elts) != 2:
                raise NotAnExpression
            return translator.value(node)

        made = translator.block(function.body, pair, translator.leaves)
        if not made.expression.is_pair:
            raise NotAnExpression
        return translator.short(made)
    made = translator.short(translator.function(function.body, condition=where.use == "condition"))
    if where.use == "list" and made.kind not in ("list", "texts"):
        if made.kind != "any":
            raise NotAnExpression
        translator.say(Difference.LIST, ast.Name("the result"))
        translator.say(Difference.NULL)
    return made


def _reads(expression: Expression) -> bool:
    """Whether the expression reads the record at all."""
    return any(expression.reads(leaf) for leaf in _LEAVES)


def _tried(plan: Sequence[Node], at: int, field: str, suggestion: Suggestion) -> Suggestion | None:
    """Return the suggestion if the plan compiles with it: types fit, and an expression is allowed there."""
    from stoatflow._runtime.bridge import compile_plan  # translating alone needs no engine

    node = plan[at]
    native = suggestion.native
    if isinstance(node, nodes.Aggregate) and isinstance(native, Aggregation):
        changed: Node = replace(node, initializer=lit(None), function=native, subtractor=None, merger=None)
    else:
        fields: dict[str, Any] = {field: native}
        changed = replace(node, **fields)
    if isinstance(changed, nodes.Joining) and field == "function" and isinstance(native, Expression):
        changed = replace(changed, with_key=native.reads(expressions.key))
    try:
        compile_plan(encode([*plan[:at], changed, *plan[at + 1 :]]))
    except TopologyError:
        return None
    return suggestion
