"""Translates the syntax tree of a function to an equivalent expression.

Takes a body and its parameters as expressions, returns an expression and the differences, or raises `NotAnExpression`.
The rule: for every record for which the function returns a result, the expression returns the same, unless a difference
is noted. Where the function raises, the expression may continue with null, and that is noted too. Nothing is suggested
unless this rule is known to hold. Calls of methods and builtins are in `calls`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from stoatflow.doctor import calls
from stoatflow.doctor.difference import Difference
from stoatflow.doctor.kinds import WITHIN, Kind
from stoatflow.doctor.part import NotAnExpression, Part, literal, named
from stoatflow.doctor.source import MISSING
from stoatflow.expressions import Expression, array, format, key, obj, when  # noqa: A004  # named as in sf
from stoatflow.expressions.building import _texts

_LISTS = ("list", "texts")
_LONGEST = 400
"""A function that needs a longer expression is easier to read as it is."""


Result: TypeAlias = "Callable[[ast.expr], Part]"


class Translator:
    """Translates one function; collects the differences."""

    def __init__(self, leaves: Mapping[str, Part], resolve: Callable[[str], object]) -> None:
        """`leaves` are the parameters. `resolve` returns what any other name refers to."""
        self.leaves: Mapping[str, Part] = leaves
        self.resolve = resolve
        self.said: dict[str, None] = {}
        self.texts: dict[str, int] = {}

    @property
    def differences(self) -> tuple[str, ...]:
        """The differences, in order."""
        return tuple(self.said)

    def say(self, difference: Difference, node: ast.AST | None = None) -> None:
        """Note a difference, and the part that it is about."""
        self.said[difference.about("" if node is None else ast.unparse(node))] = None

    def function(self, body: list[ast.stmt], *, condition: bool) -> Part:
        """Translate the whole function; of a condition only the truth matters."""
        self.texts = _occurrences(body)
        return self.block(body, self.truth if condition else self.value, self.leaves)

    # Statements --------------------------------------------------------------------------------

    def block(self, statements: list[ast.stmt], result: Result, names: Mapping[str, Part]) -> Part:
        """Translate statements to the returned value; assigned names stand for their values."""
        self.leaves = names
        if not statements:
            return result(ast.Constant(None))
        first, rest = statements[0], statements[1:]
        if isinstance(first, ast.Return):
            return result(first.value or ast.Constant(None))
        if isinstance(first, ast.If):
            test = self.truth(first.test, exactly=True)
            branches = [*first.body, *rest], [*first.orelse, *rest]
            return self._choice(test, *(lambda each=each: self.block(each, result, names) for each in branches))
        return self.block(rest, result, {**names, **self._set(first)})

    def _set(self, statement: ast.stmt) -> dict[str, Part]:
        """Translate an assignment to a name; `{}` for a statement without effect."""
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if isinstance(statement, ast.Pass) or is_text:
            return {}
        targets = [getattr(statement, "target", None)]
        if isinstance(statement, ast.Assign):
            targets = list(statement.targets)
        elif not isinstance(statement, ast.AnnAssign):
            raise NotAnExpression
        value = statement.value
        if len(targets) != 1 or not isinstance(targets[0], ast.Name) or value is None:
            raise NotAnExpression
        return {targets[0].id: self.short(self.value(value))}

    @staticmethod
    def short(part: Part) -> Part:
        """Refuse an expression that is too long to be readable."""
        if len(repr(part.expression)) > _LONGEST:
            raise NotAnExpression
        return part

    def _choice(self, test: Part, then: Callable[[], Part], otherwise: Callable[[], Part]) -> Part:
        names = self.leaves
        chosen = then()
        self.leaves = names
        other = otherwise()
        self.leaves = names
        if chosen.literal is True and other.literal is False and not test.none:
            return test
        made = Part(
            when(test.expression).then(chosen.expression).otherwise(other.expression),
            chosen.kind if chosen.kind == other.kind else "any",
            chosen.none or other.none,
            test.unsure or chosen.unsure or other.unsure,
        )
        return self.short(made)

    # Values ------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Part:
        """Return an expression of the same value."""
        made = _VALUES.get(type(node))
        if made is None:
            raise NotAnExpression
        return made(self, node)

    def needed(self, *parts: Part) -> bool:
        """Note that a null among these makes the function raise; return whether one may be null."""
        if any(part.may_be_null for part in parts):
            self.say(Difference.NULL)
            return True
        return False

    def constant(self, node: ast.Constant) -> Part:
        """Translate a constant."""
        return literal(node.value)

    def name(self, node: ast.Name) -> Part:
        """Translate a parameter, an assigned name, or a constant from outside."""
        if node.id in self.leaves:
            part = self.leaves[node.id]
            if part.kind in ("foreign", "bytes", *WITHIN):
                raise NotAnExpression
            if part.kind == "made":
                self.say(Difference.MADE)
                part = Part(part.expression, "any", part.none, part.unsure)
            return part if part.kind not in ("view", "record") else Part(part.expression, "any", part.none, part.unsure)
        found = self.resolve(node.id)
        if found is MISSING:
            raise NotAnExpression
        self.say(Difference.READ_ONCE, node)
        return named(node.id, found)

    def attribute(self, node: ast.Attribute) -> Part:
        """Translate a part of a windowed key: `windowed.key`, `windowed.window.start`."""
        of: ast.expr = node.value
        names = [node.attr]
        while isinstance(of, ast.Attribute):
            names.insert(0, of.attr)
            of = of.value
        part = self.leaves.get(of.id) if isinstance(of, ast.Name) else None
        if part is None or part.kind not in WITHIN or part.expression._op != "key":
            raise NotAnExpression
        parts: dict[tuple[str, ...], tuple[Expression, Kind]] = {
            ("key",): (key.key, WITHIN[part.kind]),
            ("window", "start"): (key.window.start, "number"),
            ("window", "end"): (key.window.end, "number"),
        }
        made, kind = parts.get((*names,), (key, "foreign"))
        if kind == "foreign":
            raise NotAnExpression
        return Part(made, kind, unsure=self.needed(part))

    def subscript(self, node: ast.Subscript) -> Part:
        """Translate a member, an element, or a slice."""
        base = self.value(calls.without_default(node.value))
        if isinstance(node.slice, ast.Slice):
            return self._cut(node.slice, base)
        index = self.value(node.slice)
        self.needed(base)
        which = index.literal
        if isinstance(which, str) and base.kind in ("any", "object"):
            self.say(Difference.NULL)
            return Part(base.expression[which], none=True, unsure=True)
        if isinstance(which, int) and not isinstance(which, bool) and base.kind in ("any", *_LISTS):
            self.say(Difference.NULL)
            if base.kind == "any":
                self.say(Difference.LIST, node)
            kind: Kind = "text" if base.kind == "texts" else "any"
            return Part(base.expression[which], kind, none=kind == "any", unsure=True)
        if index.kind == "text" and base.kind in ("any", "object"):
            self.say(Difference.NULL)
            return Part(base.expression[index.expression], none=True, unsure=True)
        raise NotAnExpression

    def _cut(self, cut: ast.Slice, base: Part) -> Part:
        bounds = [None if bound is None else self.value(bound).literal for bound in (cut.lower, cut.upper)]
        whole = all(bound is None or (isinstance(bound, int) and not isinstance(bound, bool)) for bound in bounds)
        if cut.step is not None or not whole or base.kind not in ("any", "text", *_LISTS):
            raise NotAnExpression
        missing = self.needed(base)
        return Part(base.expression[slice(*bounds)], base.kind, unsure=missing)

    def text(self, node: ast.JoinedStr) -> Part:
        """Translate an f-string."""
        parts: list[Expression] = []
        unsure = False
        for each in node.values:
            if isinstance(each, ast.Constant):
                parts.append(literal(each.value).expression)
                continue
            assert isinstance(each, ast.FormattedValue)  # noqa: S101  # there is nothing else
            filled = self.value(each.value)
            form = calls.form_of(each)
            unsure |= filled.may_be_null
            if form:
                self.needed(filled)
                try:
                    parts.append(format("{:" + form + "}", filled.expression)._args[0])
                except (ValueError, IndexError):
                    raise NotAnExpression from None
            else:
                self.spelt(filled, each.value)
                parts.append(filled.expression)
        return Part(_texts(parts), "text", unsure=unsure)

    def spelt(self, part: Part, node: ast.AST) -> None:
        """Note how a list or an object appears in a text."""
        if part.may_be_null or part.kind not in ("text", "number", "bool"):
            self.say(Difference.SPELT, node)

    def listed(self, node: ast.List | ast.Tuple) -> Part:
        """Translate a list; as a result, a tuple is a list too."""
        if any(isinstance(each, ast.Starred) for each in node.elts):
            raise NotAnExpression
        parts = [self.value(each) for each in node.elts]
        kind: Kind = "texts" if parts and all(p.kind == "text" and not p.may_be_null for p in parts) else "list"
        return Part(array(*(part.expression for part in parts)), kind)

    def mapped(self, node: ast.Dict) -> Part:
        """Translate an object, or `{**v, ...}`, or `{**v, **w, ...}`."""
        base: Part | None = None
        keys, values = list(node.keys), list(node.values)
        while keys and keys[0] is None:
            base = self.spread(base, self.value(values[0]))
            keys, values = keys[1:], values[1:]
        members = {self._member(key): self.value(value).expression for key, value in zip(keys, values, strict=True)}
        if len(members) < len(keys):
            raise NotAnExpression
        return self.object(base, members)

    def spread(self, base: Part | None, more: Part) -> Part:
        """Copy all members of one object, or merge them with those of another."""
        if more.kind not in ("any", "object"):
            raise NotAnExpression
        if base is None:
            return more
        if self.is_record(base) or self.is_record(more):
            raise NotAnExpression
        missing = self.needed(base, more)
        return Part(base.expression.merge(more.expression), "object", unsure=missing)

    def is_record(self, part: Part) -> bool:
        """Whether this is a whole record with a schema, which an expression turns into JSON, and a function copies."""
        return any(leaf.kind == "record" and leaf.expression is part.expression for leaf in self.leaves.values())

    def object(self, base: Part | None, members: Mapping[str, Expression]) -> Part:
        """Return an object of these members, or a base with some members replaced."""
        if base is None:
            return Part(obj(members), "object")
        if self.is_record(base):
            raise NotAnExpression
        missing = self.needed(base)
        made = base.expression.with_fields(members) if members else base.expression
        return Part(made, "object", unsure=missing)

    def _member(self, key: ast.expr | None) -> str:
        name = MISSING if key is None else self.value(key).literal
        if not isinstance(name, str):
            raise NotAnExpression
        return str(name)

    # Operators ---------------------------------------------------------------------------------

    def unary(self, node: ast.UnaryOp) -> Part:
        """Translate `not` and `-`."""
        if isinstance(node.op, ast.Not):
            return self.negated(self.truth(node.operand))
        operand = self.value(node.operand)
        known = operand.literal
        if not isinstance(node.op, ast.USub) or operand.kind not in ("any", "number", "bool"):
            raise NotAnExpression
        if isinstance(known, int | float):
            return literal(-known)
        return Part(-operand.expression, "number", unsure=self.needed(operand))

    def negated(self, part: Part) -> Part:
        """Return `not`; for null, true."""
        sure = part.expression.fill_null(False) if part.none else part.expression
        return Part(~sure, "bool", unsure=part.unsure)

    def binary(self, node: ast.BinOp) -> Part:
        """Translate arithmetic, concatenation of texts, `v | {...}`."""
        if isinstance(node.op, ast.BitOr) and isinstance(node.right, ast.Dict) and None not in node.right.keys:
            base = self.value(node.left)
            if base.kind not in ("any", "object"):
                raise NotAnExpression
            return self.mapped(ast.Dict([None, *node.right.keys], [node.left, *node.right.values]))
        left, right = self.value(node.left), self.value(node.right)
        kinds = {left.kind, right.kind}
        if isinstance(node.op, ast.BitAnd | ast.BitOr) and kinds == {"bool"} and not (left.none or right.none):
            made = Expression("and" if isinstance(node.op, ast.BitAnd) else "or", left.expression, right.expression)
            return Part(made, "bool", unsure=left.unsure or right.unsure)
        calculate = _ARITHMETIC.get(type(node.op))
        if calculate is None or not kinds <= {"any", "number", "bool", "text"}:
            raise NotAnExpression
        if MISSING not in (left.literal, right.literal):
            return _folded(calculate, left, right)
        kind = self._arithmetic(node, left, right)
        missing = self.needed(left, right)
        return Part(calculate(left.expression, right.expression), kind, unsure=missing)

    def _arithmetic(self, node: ast.BinOp, left: Part, right: Part) -> Kind:
        kinds = {left.kind, right.kind}
        numbers = kinds <= {"number", "bool"}
        if isinstance(node.op, ast.Add):
            if kinds == {"any"}:
                self.say(Difference.JOINED, node)
                return "any"
            if "text" in kinds and not kinds <= {"text", "any"}:
                raise NotAnExpression
            return "text" if "text" in kinds else "number"
        if "text" in kinds:
            raise NotAnExpression
        # A text times a number repeats it, and a text % anything is formatting.
        if isinstance(node.op, ast.Mult | ast.Mod) and not numbers:
            other = [part.literal for part in (left, right) if part.kind != "any"]
            if isinstance(node.op, ast.Mod) or not (other and isinstance(other[0], float)):
                self.say(Difference.NUMBERS, node)
        return "number"

    def compared(self, node: ast.Compare) -> Part:
        """Translate comparisons, also chained ones, `in`, and `is None`."""
        made: Part | None = None
        left = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            one = self.pair(left, op, right)
            if made is None:
                made = one
            else:
                both = made.expression & one.expression
                made = Part(both, "bool", made.none or one.none, made.unsure or one.unsure)
            left = right
        assert made is not None  # noqa: S101  # there is at least one
        return made

    def pair(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Part:
        """Translate one comparison."""
        if isinstance(op, ast.In | ast.NotIn):
            found = calls.contains(self, left, right)
            return found if isinstance(op, ast.In) else self.negated(found)
        one, other = self.value(left), self.value(right)
        if isinstance(op, ast.Is | ast.IsNot | ast.Eq | ast.NotEq) and other.literal is None:
            null = Part(one.expression.is_null(), "bool", unsure=one.unsure)
            return null if isinstance(op, ast.Is | ast.Eq) else self.negated(null)
        tag = _COMPARED.get(type(op))
        both_known = MISSING not in (one.literal, other.literal)
        if tag is None or both_known or isinstance(left, ast.Tuple) or isinstance(right, ast.Tuple):
            raise NotAnExpression
        made = Expression(tag, one.expression, other.expression)
        if tag in ("eq", "ne"):
            return Part(made, "bool", unsure=one.unsure or other.unsure)
        kinds = {one.kind, other.kind}
        if not (kinds <= {"any", "number", "bool"} or kinds <= {"any", "text"}):
            raise NotAnExpression
        if kinds == {"any"}:
            self.say(Difference.ORDERED, ast.Compare(left, [op], [right]))
        return Part(made, "bool", unsure=self.needed(one, other))

    def chosen(self, node: ast.IfExp) -> Part:
        """Translate `a if c else b`."""
        test = self.truth(node.test, exactly=True)
        return self._choice(test, lambda: self.value(node.body), lambda: self.value(node.orelse))

    def either(self, node: ast.BoolOp) -> Part:
        """Translate `and` and `or` whose result is one of the operands."""
        try:
            parts = [self.value(each) for each in node.values]
        except NotAnExpression:
            parts = []
        if parts and all(part.kind == "bool" and not part.none for part in parts):
            return self.all_or_any(node)
        first, rest = node.values[0], node.values[1:]
        other: ast.expr = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
        one = self.value(first)
        if isinstance(node.op, ast.Or) and one.kind == "any" and one.none:
            second = self.value(other)
            self.say(Difference.EMPTY, node)
            filled = one.expression.fill_null(second.expression)
            return Part(filled, "any", second.none, one.unsure or second.unsure)
        test = self.truth(first, exactly=True)
        if isinstance(node.op, ast.Or):
            return self._choice(test, lambda: one, lambda: self.value(other))
        return self._choice(test, lambda: self.value(other), lambda: one)

    # Truth -------------------------------------------------------------------------------------

    def truth(self, node: ast.expr, *, exactly: bool = False) -> Part:
        """Return a condition that holds where the value is true in Python."""
        if isinstance(node, ast.BoolOp):
            return self.all_or_any(node, exactly=exactly)
        if isinstance(node, ast.IfExp):
            test = self.truth(node.test, exactly=True)
            return self._choice(test, lambda: self.truth(node.body), lambda: self.truth(node.orelse))
        part = self.value(node)
        if part.literal is not MISSING:
            return literal(bool(part.literal))
        known = _TRUTHS.get(part.kind)
        if known is not None:
            return known(part)
        is_member = isinstance(node, ast.Subscript | ast.Call)
        if exactly or not is_member or self.texts.get(ast.dump(node), 0) > 1:
            falsy = part.expression.is_in([None, False, "", array(), obj()])
            return Part(~falsy, "bool", unsure=part.unsure)
        self.say(Difference.TRUTH, node)
        return Part(part.expression, "bool", part.none, part.unsure)

    def all_or_any(self, node: ast.BoolOp, *, exactly: bool = False) -> Part:
        """Translate `and` and `or` of conditions."""
        parts = [self.truth(each, exactly=exactly) for each in node.values]
        tag = "and" if isinstance(node.op, ast.And) else "or"
        made = parts[0]
        for part in parts[1:]:
            # Null doesn't decide, so the right side would be evaluated where Python doesn't evaluate it.
            first = made.expression.fill_null(False) if made.none and tag == "and" else made.expression
            none = part.none or (made.none and tag == "or")
            made = Part(Expression(tag, first, part.expression), "bool", none, made.unsure or part.unsure)
        return made


def _not_zero(part: Part) -> Part:
    sure = part.expression.fill_null(0) if part.none else part.expression
    return Part(sure > 0 if sure._op == "len" else sure != 0, "bool", unsure=part.unsure)


def _not_empty(part: Part) -> Part:
    sure = part.expression.fill_null("") if part.none else part.expression
    return Part(sure != "", "bool", unsure=part.unsure)


def _has_elements(part: Part) -> Part:
    return Part(part.expression.len() > 0, "bool", part.none, part.unsure)


_TRUTHS: dict[Kind, Callable[[Part], Part]] = {
    "bool": lambda part: part,
    "number": _not_zero,
    "text": _not_empty,
    "list": _has_elements,
    "texts": _has_elements,
    "object": _has_elements,
}


def _folded(calculate: Callable[[Any, Any], Any], left: Part, right: Part) -> Part:
    try:
        return literal(calculate(left.literal, right.literal))
    except (ArithmeticError, TypeError, ValueError):
        raise NotAnExpression from None


def _occurrences(body: list[ast.stmt]) -> dict[str, int]:
    """Count how often each part occurs."""
    count: dict[str, int] = {}
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Subscript | ast.Call):
                text = ast.dump(node)
                count[text] = count.get(text, 0) + 1
    return count


_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip
_COMPARED: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip
_VALUES: dict[type[ast.expr], Callable[[Translator, Any], Part]] = {
    ast.Constant: Translator.constant,
    ast.Name: Translator.name,
    ast.Attribute: Translator.attribute,
    ast.Subscript: Translator.subscript,
    ast.JoinedStr: Translator.text,
    ast.List: Translator.listed,
    ast.Tuple: Translator.listed,
    ast.Dict: Translator.mapped,
    ast.UnaryOp: Translator.unary,
    ast.BinOp: Translator.binary,
    ast.Compare: Translator.compared,
    ast.IfExp: Translator.chosen,
    ast.BoolOp: Translator.either,
    ast.Call: calls.call,
}
