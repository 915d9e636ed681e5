"""Checks functions of the user against the parameters they get, and names them for messages.

Takes a callable or an expression and the arguments it will be called with; returns a plan function, or raises a
`TopologyError` that names the user's line. The method defines the arguments; they are never guessed from the callable's
arity. Never calls the function. Value objects beside functions are checked here too.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from stoatflow._dsl.signatures import signature_of
from stoatflow.asynchronous import as_awaiting
from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression, array
from stoatflow.plan.node_base import Function, ProcessorRef, Udf

VALUE = ("value",)
KEY_VALUE = ("key", "value")
KEY_VALUE_AGG = ("key", "value", "agg")
AGG_VALUE = ("agg", "value")
PARTITIONER = ("topic", "key", "value", "partitions")
WITH_HEADERS = ("topic", "headers", "key", "value", "partitions")
NOTHING = ()

T = TypeVar("T")
D = TypeVar("D")
# Their results are iterated over, so a generator function is allowed.
_ITERATED = ("flat_map", "flat_map_values", "to(partitioner=)")
# Called where records are read, or where one has failed: nothing there may wait for an event loop.
_PLAIN_ONLY = (
    "(timestamp=)", "(late=)", "Decide", "DecideLate", "Watermark.custom", "map_batches", "foreach_batch",
    "(on_timeout=)", "(on_error=)"
)  # fmt: skip
_REQUIRED: Any = object()
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def user_line() -> str:
    """Return `file.py:line` of the nearest caller outside the package."""
    frame = sys._getframe(1)
    # The `__init__` of a dataclass has no file of its own.
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(_PACKAGE)
        or (frame.f_code.co_filename, frame.f_code.co_name) == ("<string>", "__init__")
    ):
        frame = frame.f_back
    return f"{_short(frame.f_code.co_filename)}:{frame.f_lineno}"


def display_name(fn: Callable[..., Any], line: str) -> str:
    """Return `file.py:line name`; a builtin has no file, so it gets the line that passed it."""
    target: Any = fn
    if isinstance(target, type):
        return f"{line} {target.__qualname__.rpartition('<locals>.')[2]}"
    while isinstance(target, functools.partial):
        target = target.func
    name = getattr(target, "__qualname__", None) or type(target).__qualname__
    target = inspect.unwrap(target)
    code = getattr(target, "__code__", None) or getattr(type(target).__call__, "__code__", None)
    if code is None:
        return f"{line} {name}"
    return f"{_short(code.co_filename)}:{code.co_firstlineno} {name.rpartition('<locals>.')[2]}"


def given(value: object, wanted: type[T], default: D, method: str, line: str, instead: str = "") -> T | D:
    """Return a value object of this type, `default` for `None`; raise `TopologyError` for anything else."""
    if value is None and default is not _REQUIRED:
        return default
    if not isinstance(value, wanted):
        shown = f"the class {value.__name__} itself" if isinstance(value, type) else type(value).__name__
        raise TopologyError(
            f"{line} {method} needs {_article(wanted.__name__)}, not {shown}",
            next_step=instead or f"pass {wanted.__name__}(...)",
        )
    return value


def needed(value: object, wanted: type[T], method: str, line: str, instead: str = "") -> T:
    """As `given`, but `None` is an error too."""
    return given(value, wanted, _REQUIRED, method, line, instead)


def _article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def never_runs(fn: Callable[..., Any]) -> str:
    """Return why a plain call would run nothing (the result must be awaited or iterated over); empty if it runs."""
    # An object may be callable by an async `__call__` of its class.
    for each in (fn, type(fn).__call__):
        if inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each):
            return "is async"
        if inspect.isgeneratorfunction(each):
            return "has a yield"
    return ""


def check_callback(callback: object) -> None:
    """Raise `TypeError` if this can't be the callback of a schedule."""
    if not callable(callback):
        raise TypeError(f"schedule() needs a function of (timestamp), not {callback!r}")
    line = user_line()
    display = display_name(callback, line)
    if why := never_runs(callback):
        raise TypeError(
            f"{line} schedule() got {display}, which {why}: calling it would do nothing. "
            "Next: pass a plain function that forwards and writes itself"
        )
    known = signature_of(callback)
    if known is not None and not accepts(known, 1):
        raise TypeError(
            f"{line} schedule() calls its function with (timestamp), but {display} takes {known}. "
            "Next: give it one parameter, the time it is due"
        )


def callable_only(fn: object, shape: tuple[str, ...], method: str, line: str, instead: str) -> Udf:
    """Check a function where an expression is not allowed; `instead` says what to write."""
    if isinstance(fn, Expression):
        raise TopologyError(f"{line} {method} does not take an expression ({fn!r})", next_step=instead)
    return _callable(fn, shape, method, line)


def function(fn: object, shape: tuple[str, ...], method: str, line: str) -> Function:
    """Check a function or an expression for a method that calls it with these arguments."""
    return fn if isinstance(fn, Expression) else _callable(fn, shape, method, line)


def pairing(fn: object, method: str, line: str, instead: str) -> Function:
    """Check what returns a key and a value: a function of `(key, value)`, or two expressions."""
    if isinstance(fn, tuple) and len(fn) == 2:
        return array(*fn)
    if isinstance(fn, Expression) and fn.is_pair:
        return fn
    return callable_only(fn, KEY_VALUE, method, line, instead)


def processor(supplier: object, method: str, line: str) -> ProcessorRef:
    """Check a supplier of processors: a class, or a callable without arguments."""
    if not callable(supplier) or isinstance(supplier, Expression):
        raise TopologyError(
            f"{line} {method} needs a Processor class or a function that makes one, not {type(supplier).__name__}",
            next_step=f"pass the class itself, not an object of it: {method}(MyProcessor)",
        )
    display = display_name(supplier, line)
    known = signature_of(supplier)
    if known is not None and not accepts(known, 0):
        raise TopologyError(
            f"{line} {method} calls {display} without arguments, but it takes {known}",
            next_step=f"wrap it: {method}(lambda: {getattr(supplier, '__name__', 'MyProcessor')}(...))",
        )
    return ProcessorRef(supplier, display)


def _callable(fn: object, shape: tuple[str, ...], method: str, line: str) -> Udf:
    wanted = f"({', '.join(shape)})"
    if not callable(fn):
        raise TopologyError(
            f"{line} {method} needs a function of {wanted} or an expression, not {type(fn).__name__}",
            next_step=f"write {method}(lambda {', '.join(shape)}: ...)",
        )
    display = display_name(fn, line)
    awaited = as_awaiting(fn)
    if awaited is not None and method.endswith(_PLAIN_ONLY):
        raise TopologyError(
            f"{line} {method} got the async function {display}: only plain functions can be called here",
            next_step="pass a plain function that computes its result from what it is given alone",
        )
    why = never_runs(fn if awaited is None else awaited.function)
    if awaited is not None:
        fn, why = awaited, "has a yield" if inspect.isasyncgenfunction(awaited.function) else ""
    if why and method not in _ITERATED:
        raise TopologyError(
            f"{line} {method} got {display}, which {why}: calling it would not run it",
            next_step="pass a function that returns its result; flat_map and flat_map_values take functions with yield",
        )
    known = signature_of(fn)  # `None` for some builtins; then the first record fails
    if known is not None and not accepts(known, len(shape)):
        raise TopologyError(
            f"{line} {method} calls its function with {wanted}, but {display} takes {known}",
            next_step=_advice(known, shape, method),
        )
    return Udf(fn, display)


def accepts(signature: inspect.Signature, count: int) -> bool:
    """Whether it can be called with this many arguments."""
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _advice(signature: inspect.Signature, shape: tuple[str, ...], method: str) -> str:
    if shape == VALUE and accepts(signature, 2):
        return f"to get the key too, write {method}(..., with_key=True)"
    if shape == PARTITIONER and accepts(signature, len(WITH_HEADERS)):
        return f"to get the headers too, {', '.join(WITH_HEADERS)}, write to(..., partitioner_with_headers=True)"
    return f"give it the parameters ({', '.join(shape)}), for example: lambda {', '.join(shape)}: ..."


@functools.cache
def _short(path: str) -> str:
    """Return the path relative to the working directory, or the bare file name: stable on every machine."""
    try:
        relative = os.path.relpath(path)
    except (ValueError, OSError):
        return os.path.basename(path)
    return os.path.basename(path) if relative.startswith("..") else relative
