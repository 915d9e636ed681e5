"""Finds the source of a function that a topology calls.

Takes a callable, returns its parameters and its body as a syntax tree, or nothing if it isn't written in Python, or its
file has changed since. Lambdas on one line are distinguished by their columns (Python 3.11), and the source found is
compiled again and compared with the running code. Never calls the function, never imports anything.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import copy
import functools
import inspect
import linecache
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Definition: TypeAlias = "ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef"

SILENT = "# doctor: ok"
"""A comment in a function's source that turns findings about it off."""
MISSING: Any = object()
"""Result for a name that refers to nothing."""

_BUILTINS = (str, int, float, bool, len, abs, round)
_FUTURE = sum(getattr(__future__, name).compiler_flag for name in ("annotations", "barry_as_FLUFL"))
"""Flags of a code object that say which `from __future__` imports it was compiled with, as far as they still matter."""
_AROUND = "_stoatflow_around"


@dataclass(frozen=True, slots=True)
class Written:
    """A function's source."""

    call: Callable[..., Any]
    line: int
    text: str
    parameters: tuple[str, ...]
    defaults: Mapping[str, object]
    body: list[ast.stmt]
    loops: frozenset[str] = frozenset()
    """Variables of loops around the function, in the function that defines it."""
    silent: bool = False
    """Whether the user has turned findings about it off."""

    def resolve(self, name: str) -> object:
        """Return the current value of a name that is neither a parameter nor local; `MISSING` if it has none."""
        if isinstance(self.call, types.FunctionType):
            code = self.call.__code__
            if name in (*code.co_varnames, *code.co_cellvars):
                return MISSING
            if name in code.co_freevars:
                cell = (self.call.__closure__ or ())[code.co_freevars.index(name)]
                try:
                    return cell.cell_contents
                except ValueError:  # not assigned yet
                    return MISSING
            if name in self.call.__globals__:
                return self.call.__globals__[name]
        return getattr(builtins, name, MISSING)


def written(call: Callable[..., Any]) -> Written | None:
    """Return the source of a function, if it can be found."""
    if isinstance(call, types.FunctionType):
        # A function wrapped with `functools.wraps` calls the other one in its own way.
        return None if hasattr(call, "__wrapped__") else _of_function(call)
    text = _builtin(call)
    return None if text is None else _of_text(call, text)


def _builtin(call: Callable[..., Any]) -> str | None:
    if isinstance(call, types.MethodDescriptorType) and call.__objclass__ is str:
        return f"str.{call.__name__}"
    return next((str(each.__name__) for each in _BUILTINS if call is each), None)


def _of_text(call: Callable[..., Any], text: str) -> Written:
    body = ast.parse(f"{text}(value)", mode="eval").body
    return Written(call, 0, text, ("value",), {}, [ast.Return(body)])


def _of_function(call: types.FunctionType) -> Written | None:
    code = call.__code__
    linecache.checkcache(code.co_filename)
    source = "".join(linecache.getlines(code.co_filename, call.__globals__))
    file = _parsed(source, code.co_filename)
    places = [place for place in file.places if place.line == code.co_firstlineno]
    if len(places) > 1:
        places = [place for place in places if _is_at(place.node, code)] or places
    for place in places:
        if _is_same(place.node, code, file.imports):
            return _of_node(call, place, source)
    return None


def _of_node(call: types.FunctionType, place: _Place, source: str) -> Written:
    node = place.node
    text = ast.get_source_segment(source, node) or ""
    body: list[ast.stmt] = [ast.Return(node.body)] if isinstance(node, ast.Lambda) else node.body
    if not isinstance(node, ast.Lambda):
        text = f"def {node.name}({ast.unparse(node.args)})"
    lines = source.splitlines()[place.line - 1 : node.end_lineno]
    return Written(
        call,
        place.line,
        " ".join(text.split()),
        tuple(arg.arg for arg in (*node.args.posonlyargs, *node.args.args)),
        _defaults(call),
        body,
        place.loops,
        any(SILENT in line for line in lines),
    )


def _defaults(call: types.FunctionType) -> dict[str, object]:
    given = call.__defaults__ or ()
    names = call.__code__.co_varnames[: call.__code__.co_argcount]
    return {**dict(zip(names[len(names) - len(given) :], given, strict=True)), **(call.__kwdefaults__ or {})}


# Finding definitions -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    node: Definition
    line: int
    loops: frozenset[str]


@dataclass(frozen=True, slots=True)
class _File:
    places: tuple[_Place, ...] = ()
    imports: tuple[ast.stmt, ...] = ()
    """Imports of the module: methods of imported objects are called differently."""


@functools.lru_cache(maxsize=8)
def _parsed(source: str, file: str) -> _File:
    """Return all functions of a file."""
    try:
        tree = ast.parse(source, file)
    except (SyntaxError, ValueError):
        return _File()
    return _File(tuple(_within(tree, frozenset())), tuple(_imports(tree)))


def _imports(node: ast.AST) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            is_future = isinstance(child, ast.ImportFrom) and child.module == "__future__"
            yield from () if is_future else (child,)
        elif isinstance(child, ast.stmt) and not isinstance(
            child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        ):
            yield from _imports(child)


def _within(node: ast.AST, loops: frozenset[str]) -> Iterator[_Place]:
    for child in ast.iter_child_nodes(node):
        once = isinstance(node, ast.For | ast.AsyncFor) and child is node.iter
        inner = loops if once else loops | _targets(node)
        if isinstance(child, ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = [] if isinstance(child, ast.Lambda) else child.decorator_list
            yield _Place(child, min(each.lineno for each in (child, *decorators)), inner)
            yield from _within(child, frozenset())
        else:
            yield from _within(child, inner)


def _targets(node: ast.AST) -> frozenset[str]:
    """The variables of a loop."""
    loops: list[ast.AST] = []
    if isinstance(node, ast.For | ast.AsyncFor):
        loops = [node.target]
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        loops = [each.target for each in node.generators]
    return frozenset(each.id for loop in loops for each in ast.walk(loop) if isinstance(each, ast.Name))


# Matching source and code --------------------------------------------------------------------------


def _is_at(node: Definition, code: types.CodeType) -> bool:
    """Whether the code has the columns of this definition. Python 3.10 doesn't record them."""
    if not isinstance(node, ast.Lambda) or not hasattr(code, "co_positions"):
        return False
    body = node.body
    span = (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset)
    return span in set(code.co_positions())


def _is_same(node: Definition, code: types.CodeType, imports: tuple[ast.stmt, ...]) -> bool:
    """Whether the definition compiles to the same instructions."""
    fresh = _compiled(node, code, imports)
    return fresh is not None and _content(fresh) == _content(code)


def _compiled(node: Definition, code: types.CodeType, imports: tuple[ast.stmt, ...]) -> types.CodeType | None:
    # An outer function that has the free variables as locals.
    around = ast.parse(f"def {_AROUND}():\n    " + ("; ".join(f"{name} = 0" for name in code.co_freevars) or "pass"))
    (function,) = around.body
    assert isinstance(function, ast.FunctionDef)  # noqa: S101  # written above
    if isinstance(node, ast.Lambda):
        function.body.append(ast.copy_location(ast.Expr(node), node))
    else:
        bare = copy.copy(node)
        bare.decorator_list = []
        function.body.append(bare)
    around.body[:0] = imports
    try:
        module = compile(
            ast.fix_missing_locations(around), code.co_filename, "exec", code.co_flags & _FUTURE, dont_inherit=True
        )
    except (SyntaxError, ValueError):
        return None
    found = [each for each in _codes(module) if each.co_name == code.co_name and each.co_name != _AROUND]
    return found[0] if found else None


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """All code objects within, from the outside to the inside."""
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    yield from inner
    for each in inner:
        yield from _codes(each)


def _content(code: types.CodeType) -> tuple[object, ...]:
    constants = tuple(_constant(each) for each in code.co_consts)
    # Free variables show whether it is in another function.
    flags = code.co_flags & ~inspect.CO_NESTED
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars, code.co_argcount, flags


def _constant(constant: object) -> object:
    if isinstance(constant, types.CodeType):
        return _content(constant)
    if isinstance(constant, frozenset):
        # From a compiled file the order may differ from that of the source.
        return frozenset(_constant(each) for each in constant)
    # Python 3.10 keeps the qualified names of inner functions.
    return type(constant), repr(constant).rpartition(".<locals>.")[2]
