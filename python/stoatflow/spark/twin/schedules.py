"""Finds out whether a processor schedules by the wall clock, which only its `init` shows.

Takes a supplier of processors, returns whether one of its schedules uses the wall clock. Calls only `init`, with a
context that does nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from stoatflow.punctuation import PunctuationType


def by_wall_clock(supplier: Callable[[], Any]) -> bool:
    """Whether it schedules by the wall clock."""
    return PunctuationType.WALL_CLOCK_TIME in _asked(supplier)


def schedules(supplier: Callable[[], Any]) -> bool:
    """Whether it schedules anything."""
    return bool(_asked(supplier))


def _asked(supplier: Callable[[], Any]) -> list[object]:
    """Create a processor, initialize it with a context that does nothing, and return what it schedules."""
    context = _Context()
    # An `init` that needs more than that is ignored here; in a worker it gets the engine's own context.
    with contextlib.suppress(Exception):
        supplier().init(context)
    return context.clocks


class _Inert:
    """Any attribute, call or item of it is the object itself."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: object, **__: object) -> Any:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class _Context(_Inert):
    def __init__(self) -> None:
        self.clocks: list[object] = []

    def schedule(self, *given: object, **named: object) -> Any:
        self.clocks += [*given, *named.values()]
        return _Inert()
