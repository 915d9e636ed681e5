"""Finds mistakes that are certain to cause trouble at run time: in the source of a function, or in store names.

Takes the source of functions, returns sentences: what is wrong, and what to do. Examines only the function itself, not
what it calls. Anything that may be correct is not reported.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import NamedTuple

from stoatflow.doctor.finding import Kind
from stoatflow.doctor.place import Place
from stoatflow.doctor.source import MISSING, Written


class Mistake(NamedTuple):
    """What is wrong, and what to do."""

    kind: Kind
    message: str
    next_step: str


_HTTP = frozenset({"get", "post", "put", "patch", "delete", "head", "options", "request", "stream", "send"})
# By the module in which they are defined; all of them wait for something outside the process.
_BLOCKING: Mapping[str, frozenset[str]] = {
    "time": frozenset({"sleep"}),
    "requests": _HTTP,
    "httpx": _HTTP,
    "urllib3": frozenset({"request", "urlopen"}),
    "urllib": frozenset({"urlopen", "urlretrieve"}),
    "subprocess": frozenset({"run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"}),
}
_CHANGING = frozenset(
    {
        "add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove",
        "reverse", "setdefault", "sort", "update",
    }
)  # fmt: skip
_SHARED = (list, dict, set, deque, bytearray)


def blocking(function: Written, *, is_async: bool) -> Mistake | None:
    """Find a blocking call in a function on which others have to wait."""
    for node in _own(function.body):
        if isinstance(node, ast.Call) and _waits(function, node.func):
            shown = f"{ast.unparse(node.func)}(...)"
            if is_async:
                return Mistake(
                    "blocking call",
                    f"{shown} blocks the event loop, and with it all other async calls of the application",
                    "await an async client or asyncio.sleep, or call it with asyncio.to_thread",
                )
            return Mistake(
                "blocking call",
                f"the lane waits in {shown}: no more calls are under way than there are lanes",
                "make it async def, which has many calls under way, or raise lanes.count (docs/guide/async.md)",
            )
    return None


def own_state(function: Written) -> Mistake | None:
    """Find state that is kept outside a store."""
    for node in _own(function.body):
        for name in _changed(node):
            if isinstance(function.resolve(name), _SHARED):
                return _state(name)
        if isinstance(node, ast.Global | ast.Nonlocal):
            stored = {each.id for each in _own(function.body) if isinstance(each, ast.Name) and _is_set(each)}
            for name in node.names:
                if name in stored:
                    return _state(name)
    return None


def _state(name: str) -> Mistake:
    return Mistake(
        "own state",
        f"it keeps state in '{name}', outside of all stores: a restart forgets it and processes records again, and "
        "lanes change it at the same time",
        "keep it in a store: aggregate, reduce, deduplicate, or a Processor with a state store",
    )


def changed_view(function: Written, where: Place | None) -> Mistake | None:
    """Find an attempt to modify a read-only argument."""
    if where is None:
        return None
    pairs = zip(function.parameters, where.parameters, strict=False)
    views = {name for name, part in pairs if part.kind in ("view", "record")}
    # A name that is assigned refers to something else from there on.
    views -= {each.id for each in _own(function.body) if isinstance(each, ast.Name) and _is_set(each)}
    for node in _own(function.body):
        for name in _changed(node):
            if name in views:
                return Mistake(
                    "changed view",
                    f"it changes '{name}', a view that can't be changed: the first record will fail",
                    f'give another one, such as {name} | {{...}}, or read real dicts, with decode="dict" in the serde',
                )
    return None


def late_binding(functions: Sequence[Written]) -> Mistake | None:
    """Find functions created in a loop (all at one place) that use the loop's variable: they see its last value."""
    first = functions[0]
    if len(functions) < 2:
        return None
    read = {each.id for each in _all(first.body) if isinstance(each, ast.Name)}
    for name in sorted(read & first.loops - {*first.parameters, *first.defaults}):
        values = [function.resolve(name) for function in functions]
        if values[0] is not MISSING and all(value is values[0] for value in values):
            return Mistake(
                "late binding",
                f"'{name}' is set by the loop around it, and read when the function is called: all {len(functions)} "
                f"functions of this line see its last value, {values[0]!r}",
                f"bind it to a parameter: lambda ..., {name}={name}: ...",
            )
    return None


# Walking the syntax tree -------------------------------------------------------------------------


def _own(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Return all nodes, except those of nested functions and classes."""
    for node in body:
        yield node
        if not isinstance(node, ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _own(list(ast.iter_child_nodes(node)))


def _all(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    for node in body:
        yield from ast.walk(node)


def _is_set(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store | ast.Del)


def _changed(node: ast.AST) -> Iterator[str]:
    """Return the names whose content this node modifies."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        owner: ast.AST | None = node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGING:
        owner = node.func.value
    else:
        owner = None
    if isinstance(owner, ast.Name):
        yield owner.id


def _waits(function: Written, called: ast.expr) -> bool:
    """Whether this is one of the blocking functions, or a method of one of their clients."""
    names: list[str] = []
    while isinstance(called, ast.Attribute):
        names.insert(0, called.attr)
        called = called.value
    if not isinstance(called, ast.Name):
        return False
    found = function.resolve(called.id)
    while names and isinstance(found, ModuleType):
        found = getattr(found, names.pop(0), MISSING)
    if found is MISSING or len(names) > 1:
        return False
    # For a client, the class is what the module defines.
    owner, name = (type(found), names[0]) if names else (found, getattr(found, "__name__", ""))
    if isinstance(found, type) or "Async" in type(found).__name__:
        return False
    module = str(getattr(owner, "__module__", ""))
    return name in _BLOCKING.get(module.partition(".")[0], frozenset())
