"""Does a processor ask for the machine's clock? Only its `init` says so.

Takes: what makes a processor. Gives: whether one of its schedules goes by the wall clock.
Never: lets a processor do more than begin: what its context gives it does nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from stoatflow.punctuation import PunctuationType


def by_wall_clock(supplier: Callable[[], Any]) -> bool:
    """Does it schedule by the wall clock?"""
    return PunctuationType.WALL_CLOCK_TIME in _asked(supplier)


def schedules(supplier: Callable[[], Any]) -> bool:
    """Does it schedule anything?"""
    return bool(_asked(supplier))


def _asked(supplier: Callable[[], Any]) -> list[object]:
    """Make a processor, begin it with a context that does nothing, and see what it schedules."""
    context = _Context()
    # One that needs more than that says nothing here; in a worker it meets the engine's own context.
    with contextlib.suppress(Exception):
        supplier().init(context)
    return context.clocks


class _Inert:
    """Whatever is done with it gives it again."""

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
