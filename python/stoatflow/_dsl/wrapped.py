"""Puts a wrapper around every Python function of a plan.

Takes a plan and a wrapper, returns the plan with each function wrapped. Runs only while a topology is built; a topology
without a wrapper pays nothing. What runs natively (expressions, counts, joins without a function) has no Python
function and is not wrapped.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stoatflow.asynchronous import Awaiting, is_async
from stoatflow.errors import TopologyError
from stoatflow.plan.functions import never_runs, user_line
from stoatflow.wrapping import Function, NodeInfo, Wrapper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stoatflow.plan import EncodedPlan, Node


def checked_wrapper(wrapper: object) -> Wrapper | None:
    """Return the wrapper; raise `TopologyError` if it can't be called."""
    if wrapper is None:
        return None
    if not callable(wrapper) or never_runs(wrapper):
        raise TopologyError(
            f"{user_line()} wrapper= must be a plain function of (node, next), not {wrapper!r}",
            next_step="write def wrapper(node, next): ... that returns a function, or next itself",
        )
    return wrapper


def wrapped(encoded: EncodedPlan, physical: str, plan: Sequence[Node], wrapper: Wrapper) -> EncodedPlan:
    """Return the plan with each function wrapped. `encoded` must not share functions between nodes."""
    names = names_by_function(json.loads(physical))
    functions = [
        _wrap(wrapper, _info(plan[at], field, names.get(("udf", index))), fn, plan[at].line)
        for index, (fn, (at, field)) in enumerate(zip(encoded.functions, encoded.function_uses, strict=True))
    ]
    processors = [
        _wrap_supplier(wrapper, plan[at], names.get(("processor", index)), supplier)
        for index, (supplier, at) in enumerate(zip(encoded.processors, encoded.processor_uses, strict=True))
    ]
    return replace(encoded, functions=tuple(functions), processors=tuple(processors))


def _wrap(wrapper: Wrapper, info: NodeInfo, fn: Function, line: str | None) -> Function:
    if isinstance(fn, Awaiting):
        around = wrapper(info, fn.function)
        if around is not fn.function and not is_async(around):
            raise TopologyError(
                f"{line} the wrapper gave {around!r}, which is not async, as the {info.function} of '{info.name}'",
                next_step="return an async function with the arguments of next, or next itself",
            )
        return fn if around is fn.function else fn.around(around)
    made = wrapper(info, fn)
    if not callable(made) or never_runs(made):
        raise TopologyError(
            f"{line} the wrapper gave {made!r} for the {info.function} of '{info.name}', and no plain function",
            next_step="return a function with the arguments of next, or next itself",
        )
    return made


def _info(node: Node, field: str, name: str | None) -> NodeInfo:
    stores = getattr(node, "stores", ())
    kept = getattr(getattr(node, "materialized", None), "store", None) or getattr(node, "store", None)
    return NodeInfo(node.name or name or node.op, node.op, field, stores or ((kept,) if kept else ()))


def names_by_function(physical: dict[str, Any]) -> dict[tuple[str, int], str]:
    """Return the nodes' names by the functions and processors that they call."""
    found: dict[tuple[str, int], str] = {}
    for node in physical["nodes"]:
        for use in _uses(node["op"]):
            # A node precedes those that read it as a view, so the first name found is its own.
            found.setdefault(use, node["name"])
    for node in [*physical["sources"], *physical["sinks"]]:
        for use in _uses(node):
            found.setdefault(use, node["name"])
    return found


def _uses(part: object) -> Iterator[tuple[str, int]]:
    if isinstance(part, dict):
        for key, content in part.items():
            if key in ("udf", "processor") and isinstance(content, int):
                yield key, content
            else:
                yield from _uses(content)
    elif isinstance(part, list):
        for content in part:
            yield from _uses(content)


def _wrap_supplier(wrapper: Wrapper, node: Node, name: str | None, supplier: Callable[[], Any]) -> Callable[[], Any]:
    work = "transform" if node.op == "transform_values" else "process"
    info = _info(node, work, name)
    here = _CurrentCall()

    def call_in_this_thread(*arguments: Any) -> Any:
        if here.work is None:
            raise RuntimeError(
                f"next() of '{info.name}' was called outside of {work}(), or in another thread. "
                "Next: call it within the wrapping function itself"
            )
        return here.work(*arguments)

    made = _wrap(wrapper, info, call_in_this_thread, node.line)
    if made is call_in_this_thread:
        return supplier
    return lambda: _WrappedProcessor(supplier(), work, made, here)


class _CurrentCall(threading.local):
    """The `process` or `transform` of the processor that runs in this thread."""

    work: Function | None = None


class _WrappedProcessor:
    """A processor whose `process` or `transform` goes through the wrapper; all other methods are its own."""

    def __init__(self, inner: Any, work: str, wrapped: Function, here: _CurrentCall) -> None:
        self.init = inner.init
        self.close = inner.close
        if hasattr(inner, "on_timer"):
            self.on_timer = inner.on_timer
        own = getattr(inner, work)

        def run(*arguments: Any) -> Any:
            before, here.work = here.work, own
            try:
                return wrapped(*arguments)
            finally:
                here.work = before

        setattr(self, work, run)
