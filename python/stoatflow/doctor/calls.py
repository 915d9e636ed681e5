"""Translates calls of methods and builtins to expressions.

Takes a call and the translator of its function, returns an expression, or raises `NotAnExpression`. A name counts as a
builtin only if it isn't redefined. Names and meanings of methods are those of `docs/reference/expressions.md`.
"""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from stoatflow.doctor.difference import Difference
from stoatflow.doctor.part import NotAnExpression, Part, literal
from stoatflow.doctor.source import MISSING
from stoatflow.expressions import Expression, array, format, greatest, least  # noqa: A004  # as in sf

if TYPE_CHECKING:
    from stoatflow.doctor.kinds import Kind
    from stoatflow.doctor.translate import Translator

    Call: TypeAlias = Callable[[Translator, ast.Call, list[Part]], Part]

_MOST_OPTIONS = 20
_LISTS = ("list", "texts")
_NUMBERS = ("any", "number", "bool")
_AS_TEXT = ord("s")


def call(t: Translator, node: ast.Call) -> Part:
    """Translate a call."""
    function = node.func
    if any(isinstance(arg, ast.Starred) for arg in node.args):
        raise NotAnExpression
    if isinstance(function, ast.Name):
        return _builtin(t, node, function)
    if not isinstance(function, ast.Attribute):
        raise NotAnExpression
    owner = _outside(t, function.value)
    if owner is math and function.attr in _MATH:
        return _one_number(t, node, _MATH[function.attr])
    if owner is str and node.args:
        # str.upper(v) is v.upper().
        method = ast.Attribute(node.args[0], function.attr)
        return _method(t, ast.Call(method, node.args[1:], node.keywords), method)
    if owner is not MISSING and not isinstance(owner, str):
        raise NotAnExpression
    return _method(t, node, function)


def _outside(t: Translator, node: ast.expr) -> object:
    """Return what a name that is no parameter refers to."""
    return t.resolve(node.id) if isinstance(node, ast.Name) and node.id not in t.leaves else MISSING


# Builtins ------------------------------------------------------------------------------------------


def _builtin(t: Translator, node: ast.Call, function: ast.Name) -> Part:
    made = _BUILTINS.get(function.id)
    if made is None or _outside(t, function) is not getattr(builtins, function.id):
        raise NotAnExpression
    return made(t, node)


def _plain(t: Translator, node: ast.Call, least_count: int, most: int) -> list[Part]:
    """Translate arguments without names."""
    if node.keywords or not least_count <= len(node.args) <= most:
        raise NotAnExpression
    return [t.value(arg) for arg in node.args]


def _len(t: Translator, node: ast.Call) -> Part:
    (of,) = _plain(t, node, 1, 1)
    if of.kind not in ("any", "text", "object", *_LISTS) or of.literal is not MISSING:
        raise NotAnExpression
    return Part(of.expression.len(), "number", unsure=t.needed(of))


def _str(t: Translator, node: ast.Call) -> Part:
    (of,) = _plain(t, node, 1, 1)
    if of.literal is not MISSING:
        raise NotAnExpression
    if of.kind == "text" and not of.may_be_null:
        return of
    t.spelt(of, node)
    return Part(of.expression.cast("str"), "text", unsure=of.may_be_null)


def _number(to: str) -> Callable[[Translator, ast.Call], Part]:
    def made(t: Translator, node: ast.Call) -> Part:
        (of,) = _plain(t, node, 1, 1)
        if of.kind not in ("any", "text", "number", "bool") or of.literal is not MISSING:
            raise NotAnExpression
        if of.kind in ("any", "text"):
            t.say(Difference.DIGITS, node)
        return Part(of.expression.cast(to), "number", unsure=t.needed(of))

    return made


def _bool(t: Translator, node: ast.Call) -> Part:
    _plain(t, node, 1, 1)
    return t.truth(node.args[0], exactly=True)


def _one_number(t: Translator, node: ast.Call, make: Callable[[Expression], Expression]) -> Part:
    (of,) = _plain(t, node, 1, 1)
    if of.kind not in _NUMBERS or of.literal is not MISSING:
        raise NotAnExpression
    return Part(make(of.expression), "number", unsure=t.needed(of))


def _abs(t: Translator, node: ast.Call) -> Part:
    return _one_number(t, node, Expression.abs)


def _round(t: Translator, node: ast.Call) -> Part:
    of, *rest = _plain(t, node, 1, 2)
    digits = rest[0].literal if rest else None
    if of.kind not in _NUMBERS or of.literal is not MISSING or type(digits) not in (int, type(None)):
        raise NotAnExpression
    assert isinstance(digits, int | None)  # noqa: S101  # checked above
    return Part(of.expression.round(digits), "number", unsure=t.needed(of))


def _extreme(pick: Callable[..., Expression], of_list: Callable[[Any], Expression]) -> Callable[..., Part]:
    def made(t: Translator, node: ast.Call) -> Part:
        if len(node.args) == 1:
            return _of_list(t, node, of_list)
        parts = _plain(t, node, 2, 16)
        kinds = {part.kind for part in parts}
        if not (kinds <= set(_NUMBERS) or kinds <= {"any", "text"}):
            raise NotAnExpression
        if kinds == {"any"}:
            t.say(Difference.ORDERED, node)
        kind: Kind = "text" if "text" in kinds else "number" if "any" not in kinds else "any"
        return Part(pick(*(part.expression for part in parts)), kind, unsure=t.needed(*parts))

    return made


def _of_list(t: Translator, node: ast.Call, make: Callable[[Any], Expression]) -> Part:
    (of,) = _plain(t, node, 1, 1)
    if of.kind not in ("any", *_LISTS):
        raise NotAnExpression
    t.say(Difference.LIST, node)
    t.say(Difference.NULL)
    return Part(make(of.expression.list), unsure=True)


def _sum(t: Translator, node: ast.Call) -> Part:
    t.say(Difference.SUM, node)
    return Part(_of_list(t, node, lambda of: of.sum()).expression, "number", unsure=True)


def _sorted(t: Translator, node: ast.Call) -> Part:
    t.say(Difference.ORDERED, node)
    return Part(_of_list(t, node, lambda of: of.sort()).expression, "list", unsure=True)


def _dict(t: Translator, node: ast.Call) -> Part:
    names = [keyword.arg for keyword in node.keywords]
    if None in names or len(node.args) > 1:
        raise NotAnExpression
    base = t.value(node.args[0]) if node.args else None
    # dict() of a list makes an object of pairs.
    if base is not None and base.kind != "object":
        t.say(Difference.OBJECT, node)
        if base.kind != "any":
            raise NotAnExpression
    members = {str(keyword.arg): t.value(keyword.value).expression for keyword in node.keywords}
    return t.object(base, members)


_BUILTINS: dict[str, Callable[[Translator, ast.Call], Part]] = {
    "len": _len,
    "str": _str,
    "int": _number("int"),
    "float": _number("float"),
    "bool": _bool,
    "abs": _abs,
    "round": _round,
    "min": _extreme(least, lambda of: of.min()),
    "max": _extreme(greatest, lambda of: of.max()),
    "sum": _sum,
    "sorted": _sorted,
    "dict": _dict,
}
_MATH: dict[str, Callable[[Expression], Expression]] = {
    "floor": Expression.floor,
    "ceil": Expression.ceil,
    "sqrt": Expression.sqrt,
}


# Methods -------------------------------------------------------------------------------------------


def _method(t: Translator, node: ast.Call, function: ast.Attribute) -> Part:
    name = function.attr
    if name == "format":
        return _format(t, node, function)
    if name == "join":
        return _join(t, node, function)
    if name == "get":
        return _get(t, node, function)
    made = _TEXT.get(name)
    if made is None:
        raise NotAnExpression
    of = t.value(function.value)
    if of.kind not in ("any", "text") or of.literal is not MISSING:
        raise NotAnExpression
    arguments = _arguments(t, node, name)
    if name == "count" and of.kind == "any":
        t.say(Difference.TEXT, node)
    result, kind = made(of.expression, arguments)
    return Part(result, kind, unsure=t.needed(of, *arguments))


def _arguments(t: Translator, node: ast.Call, name: str) -> list[Part]:
    arguments = [t.value(arg) if not isinstance(arg, ast.Tuple) else _options(arg) for arg in node.args]
    for keyword in node.keywords:
        # The only keyword argument that occurs in practice.
        if name != "split" or keyword.arg != "maxsplit" or len(arguments) > 1:
            raise NotAnExpression
        arguments = [*(arguments or [literal(None)]), t.value(keyword.value)]
    return arguments


def _options(node: ast.Tuple) -> Part:
    """Translate several texts, for `startswith`."""
    texts = [literal(each.value) for each in node.elts if isinstance(each, ast.Constant)]
    if not texts or len(texts) < len(node.elts) or not all(each.kind == "text" for each in texts):
        raise NotAnExpression
    return Part(array(*(each.expression for each in texts)), "texts")


def _text(part: Part) -> str:
    """Return a text that is known now."""
    found = part.literal
    if not isinstance(found, str):
        raise NotAnExpression
    return found


def _whole(part: Part) -> int:
    found = part.literal
    if not isinstance(found, int) or isinstance(found, bool):
        raise NotAnExpression
    return found


Made: TypeAlias = "tuple[Expression, Kind]"


def _no_arguments(make: Callable[[Any], Expression]) -> Callable[[Expression, list[Part]], Made]:
    def made(of: Expression, arguments: list[Part]) -> Made:
        if arguments:
            raise NotAnExpression
        return make(of.str), "text"

    return made


def _stripped(name: str) -> Callable[[Expression, list[Part]], Made]:
    def made(of: Expression, arguments: list[Part]) -> Made:
        if len(arguments) > 1 or (arguments and arguments[0].kind not in ("text", "any")):
            raise NotAnExpression
        # None means whitespace.
        if arguments and (arguments[0].none or arguments[0].literal is None):
            raise NotAnExpression
        return getattr(of.str, name)(*(argument.expression for argument in arguments)), "text"

    return made


def _with_texts(name: str, count: int, kind: Kind) -> Callable[[Expression, list[Part]], Made]:
    def made(of: Expression, arguments: list[Part]) -> Made:
        if len(arguments) != count or not all(argument.kind in ("text", "any") for argument in arguments):
            raise NotAnExpression
        return getattr(of.str, name)(*(argument.expression for argument in arguments)), kind

    return made


def _begins_or_ends(name: str) -> Callable[[Expression, list[Part]], Made]:
    def made(of: Expression, arguments: list[Part]) -> Made:
        if len(arguments) != 1:
            raise NotAnExpression
        (argument,) = arguments
        options = [each._fields["value"] for each in argument.expression._args] if argument.kind == "texts" else None
        texts = [_text(argument)] if options is None else options
        found: Expression | None = None
        for each in texts:
            one: Expression = getattr(of.str, name)(each)
            found = one if found is None else found | one
        assert found is not None  # noqa: S101  # there is at least one
        return found, "bool"

    return made


def _split(of: Expression, arguments: list[Part]) -> Made:
    if len(arguments) > 2:
        raise NotAnExpression
    by = _text(arguments[0]) if arguments and arguments[0].literal is not None else None
    most = _whole(arguments[1]) if len(arguments) == 2 else -1
    if by == "":
        raise NotAnExpression
    return of.str.split(by, most), "texts"


def _replace(of: Expression, arguments: list[Part]) -> Made:
    if not 2 <= len(arguments) <= 3 or not all(argument.kind in ("text", "any") for argument in arguments[:2]):
        raise NotAnExpression
    count = _whole(arguments[2]) if len(arguments) == 3 else -1
    return of.str.replace(arguments[0].expression, arguments[1].expression, count), "text"


def _padded(name: str) -> Callable[[Expression, list[Part]], Made]:
    def made(of: Expression, arguments: list[Part]) -> Made:
        most = 1 if name == "zfill" else 2
        if not 1 <= len(arguments) <= most:
            raise NotAnExpression
        fill = [_text(argument) for argument in arguments[1:]]
        if any(len(each) != 1 for each in fill):
            raise NotAnExpression
        return getattr(of.str, name)(_whole(arguments[0]), *fill), "text"

    return made


_TEXT: dict[str, Callable[[Expression, list[Part]], Made]] = {
    "lower": _no_arguments(lambda of: of.lower()),
    "upper": _no_arguments(lambda of: of.upper()),
    "strip": _stripped("strip"),
    "lstrip": _stripped("lstrip"),
    "rstrip": _stripped("rstrip"),
    "split": _split,
    "startswith": _begins_or_ends("startswith"),
    "endswith": _begins_or_ends("endswith"),
    "replace": _replace,
    "removeprefix": _with_texts("removeprefix", 1, "text"),
    "removesuffix": _with_texts("removesuffix", 1, "text"),
    "find": _with_texts("find", 1, "number"),
    "count": _with_texts("count", 1, "number"),
    "zfill": _padded("zfill"),
    "ljust": _padded("ljust"),
    "rjust": _padded("rjust"),
}


def _format(t: Translator, node: ast.Call, function: ast.Attribute) -> Part:
    template = t.value(function.value).literal
    named = {keyword.arg: t.value(keyword.value) for keyword in node.keywords}
    if not isinstance(template, str) or None in named:
        raise NotAnExpression
    parts = [t.value(arg) for arg in node.args]
    for part, shown in zip([*parts, *named.values()], [*node.args, *(k.value for k in node.keywords)], strict=True):
        t.spelt(part, shown)
    fields = {str(name): part.expression for name, part in named.items()}
    try:
        made = format(template, *(part.expression for part in parts), **fields)
    except (ValueError, TypeError):
        raise NotAnExpression from None
    return Part(made, "text", unsure=t.needed(*parts, *named.values()))


def _join(t: Translator, node: ast.Call, function: ast.Attribute) -> Part:
    between = t.value(function.value)
    (of,) = _plain(t, node, 1, 1)
    if not isinstance(between.literal, str) or of.kind not in ("any", *_LISTS):
        raise NotAnExpression
    if of.kind != "texts":
        t.say(Difference.LIST, node)
        t.say(Difference.NULL)
    return Part(of.expression.list.join(between.literal), "text", unsure=t.needed(of) or of.kind != "texts")


def _get(t: Translator, node: ast.Call, function: ast.Attribute) -> Part:
    of = t.value(without_default(function.value))
    name, *rest = _plain(t, node, 1, 2)
    if of.kind not in ("any", "object") or not (isinstance(name.literal, str) or name.kind == "text"):
        raise NotAnExpression
    unsure = t.needed(of)
    member = of.expression[name.literal if isinstance(name.literal, str) else name.expression]
    if not rest or rest[0].literal is None:
        return Part(member, none=True, unsure=unsure)
    t.say(Difference.DEFAULT, node)
    return Part(member.fill_null(rest[0].expression), "any", rest[0].none, unsure)


def without_default(node: ast.expr) -> ast.expr:
    """Translate `v.get("a", {})` of which a member is taken as `v.get("a")`: a member of null is null."""
    is_get = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get"
    if is_get and isinstance(node, ast.Call) and len(node.args) == 2:
        default = node.args[1]
        if isinstance(default, ast.Dict) and not default.keys:
            return ast.Call(node.func, node.args[:1], node.keywords)
    return node


# in ------------------------------------------------------------------------------------------------


def contains(t: Translator, left: ast.expr, right: ast.expr) -> Part:
    """Translate `left in right`."""
    known = _known_options(t, right)
    if known is not None:
        return _is_in(t, left, right, known)
    what, of = t.value(left), t.value(right)
    t.needed(of)
    found = _found(t, what, of, left, right)
    # An object has no member null, and a text contains no null.
    if of.kind not in _LISTS and what.may_be_null:
        raise NotAnExpression
    return Part(found, "bool", unsure=of.may_be_null)


def _known_options(t: Translator, right: ast.expr) -> list[Expression] | None:
    """Return the values in the brackets, or in a constant of this name."""
    if isinstance(right, ast.Tuple | ast.List | ast.Set):
        if any(isinstance(each, ast.Starred) for each in right.elts):
            raise NotAnExpression
        return [t.value(each).expression for each in right.elts]
    found = _outside(t, right)
    if not isinstance(found, tuple | frozenset | list | set):
        return None
    t.say(Difference.READ_ONCE, right)
    # A set has no order, and the suggestion must be the same in every run.
    options = sorted(found, key=repr) if isinstance(found, frozenset | set) else list(found)
    return [literal(each).expression for each in options]


def _is_in(t: Translator, left: ast.expr, right: ast.expr, options: list[Expression]) -> Part:
    what = t.value(left)
    if len(options) > _MOST_OPTIONS or what.literal is not MISSING:
        raise NotAnExpression
    is_set = isinstance(right, ast.Set) or isinstance(_outside(t, right), frozenset | set)
    if is_set and what.kind in ("any", "object", *_LISTS):
        t.say(Difference.PLAIN, ast.Compare(left, [ast.In()], [right]))
    return Part(what.expression.is_in(options), "bool", unsure=what.unsure)


def _found(t: Translator, what: Part, of: Part, left: ast.expr, right: ast.expr) -> Expression:
    text = what.literal if isinstance(what.literal, str) else None
    if of.kind in _LISTS:
        return of.expression.list.contains(what.expression)
    if of.kind == "text" and text is not None:
        return of.expression.str.contains(text)
    if of.kind == "object" and text is not None:
        return of.expression.has(text)
    if of.kind != "any" or what.literal is MISSING:
        raise NotAnExpression
    whole = ast.Compare(left, [ast.In()], [right])
    if text is None:
        t.say(Difference.LIST, whole)
        return of.expression.list.contains(what.expression)
    if isinstance(right, ast.Name):
        t.say(Difference.OBJECT, whole)
        return of.expression.has(text)
    t.say(Difference.TEXT, whole)
    return of.expression.str.contains(text)


def form_of(part: ast.FormattedValue) -> str:
    """Return the format of a value in an f-string."""
    form = part.format_spec
    if part.conversion not in (-1, _AS_TEXT) or (form is not None and part.conversion == _AS_TEXT):
        raise NotAnExpression
    if form is None:
        return ""
    if not isinstance(form, ast.JoinedStr) or len(form.values) != 1 or not isinstance(form.values[0], ast.Constant):
        raise NotAnExpression
    return str(form.values[0].value)
