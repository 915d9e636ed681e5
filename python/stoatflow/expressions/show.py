"""The source text of an expression.

Takes a tree, returns text that evaluates to it again (apart from `from stoatflow import ...`). Nothing parses this
text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoatflow.expressions.expression import Expression

INFIX = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "&", "or": "|",
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floor_div": "//", "mod": "%",
}  # fmt: skip
_FUNCTIONS = ("least", "greatest", "coalesce", "array", "format")
_METHODS = {"str_strip_chars": "str.strip", "str_split_n": "str.split", "item": "get"}
_SPACES = ("str", "list", "dt")


def show(expression: Expression) -> str:
    """Return the source text of an expression."""
    op, args, fields = expression._op, expression._args, expression._fields
    if op == "lit":
        return repr(fields["value"])
    name = str(fields["function"]) if op == "call" else op
    plain = [repr(arg) for arg in args]
    inner = [f"({text})" if _is_open(arg) else text for arg, text in zip(args, plain, strict=True)]
    if op in INFIX or name == "pow":
        return f"{inner[0]} {INFIX.get(op, '**')} {inner[1]}"
    if name in _FUNCTIONS:
        return _template(args) if name == "format" else f"sf.{name}({', '.join(plain)})"
    if name in _SPECIAL:
        return _SPECIAL[name](fields, plain, inner)
    if not args:
        return f"sf.{op}"
    return _method(name, args[0], inner, plain, {} if op == "call" else fields)


def _is_open(arg: Expression) -> bool:
    """Whether it needs parentheses as a part of another expression."""
    negative = arg._op == "lit" and str(arg._fields["value"]).startswith("-")
    return arg._op in INFIX or arg._op == "not" or arg._fields.get("function") in ("pow", "neg") or negative


def _method(name: str, subject: Expression, inner: list[str], plain: list[str], fields: dict[str, object]) -> str:
    of = f"sf.lit({inner[0]})" if subject.is_literal else inner[0]
    space, _, rest = name.partition("_")
    method = _METHODS.get(name) or (f"{space}.{rest}" if space in _SPACES else name)
    method = method.replace("s_with", "swith")
    arguments = [*plain[1:], *(repr(content) for content in fields.values() if content not in (None, False))]
    arguments += ["strict=False"] if fields.get("strict") is False else []
    return f"{of}.{method}({', '.join(arguments)})"


def _template(parts: Sequence[Expression]) -> str:
    template, filled = "", list[str]()
    for part in parts:
        content = part._fields.get("value")
        if part.is_literal and isinstance(content, str):
            template += content.replace("{", "{{").replace("}", "}}")
        elif part._fields.get("function") == "format_number":
            template += f"{{:{part._args[1]._fields['value']}}}"
            filled.append(repr(part._args[0]))
        else:
            template += "{}"
            filled.append(repr(part))
    return f"sf.format({', '.join([repr(template), *filled])})"


def _object(fields: dict[str, object], plain: list[str], _: list[str]) -> str:
    names = fields["names"]
    named = zip(names if isinstance(names, list) else [], plain, strict=True)
    return f"sf.obj({_members(list(named))})"


def _with_fields(_: dict[str, object], plain: list[str], inner: list[str]) -> str:
    names = [text[1:-1] for text in plain[1::2]]
    return f"{inner[0]}.with_fields({_members(list(zip(names, plain[2::2], strict=True)))})"


def _members(members: list[tuple[str, str]]) -> str:
    if all(name.isidentifier() for name, _ in members):
        return ", ".join(f"{name}={content}" for name, content in members)
    return "{" + ", ".join(f"{name!r}: {content}" for name, content in members) + "}"


def _slice(_: dict[str, object], plain: list[str], inner: list[str]) -> str:
    bounds = ["" if text == "None" else text for text in plain[1:]]
    return f"{inner[0]}[{':'.join(bounds)}]"


def _sort(_: dict[str, object], plain: list[str], inner: list[str]) -> str:
    return f"{inner[0]}.list.sort({'' if plain[1] == 'False' else f'descending={plain[1]}'})"


def _parsed(method: str, usual: str) -> Callable[[dict[str, object], list[str], list[str]], str]:
    """Format a method of texts with one argument and `strict=`."""

    def shown(_: dict[str, object], plain: list[str], inner: list[str]) -> str:
        given = [] if plain[1] == usual else [plain[1]]
        strict = [] if plain[2] == "True" else [f"strict={plain[2]}"]
        return f"{inner[0]}.str.{method}({', '.join([*given, *strict])})"

    return shown


_SPECIAL = {
    "get": lambda fields, _, inner: f"{inner[0]}[{fields['name']!r}]",
    "at": lambda fields, _, inner: f"{inner[0]}[{fields['index']!r}]",
    "not": lambda _fields, _, inner: f"~{inner[0]}",
    "neg": lambda _fields, _, inner: f"-{inner[0]}",
    "when": lambda _, plain, _inner: f"sf.when({plain[0]}).then({plain[1]}).otherwise({plain[2]})",
    "is_in": lambda _, plain, inner: f"{inner[0]}.is_in([{', '.join(plain[1:])}])",
    "item": lambda _, plain, inner: f"{inner[0]}[{plain[1]}]",
    "object": _object,
    "with_fields": _with_fields,
    "slice": _slice,
    "list_sort": _sort,
    "windowed_key": lambda _fields, _, inner: f"{inner[0]}.key",
    "window_start": lambda _fields, _, inner: f"{inner[0]}.window.start",
    "window_end": lambda _fields, _, inner: f"{inner[0]}.window.end",
    "str_to_int": _parsed("to_int", "10"),
    "str_to_timestamp": _parsed("to_timestamp", "'UTC'"),
}
