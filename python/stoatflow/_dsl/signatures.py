"""Signatures of functions, read safely beside other threads, and signatures that `help()` shows for `*args` functions.

`signature_of` takes a callable, returns its signature or None. CPython 3.11.7 reads the text of a builtin's parameters
with a counter that all threads share, and fails if a garbage collection lets another thread run in between
(python/cpython#106905).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

_TRIES = 100
F = TypeVar("F", bound=Callable[..., Any])


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """Return the signature; None for a builtin or an extension's function that has none."""
    for _ in range(_TRIES):
        with suppress(SystemError):  # another thread ran in between: the function is fine
            return _told(function)
    return None


def _told(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):
        return None


def shown_as(shown: Callable[..., Any]) -> Callable[[F], F]:
    """Make `help()` and `inspect.signature` show the parameters of `shown`, whatever the function itself accepts."""

    def put(function: F) -> F:
        function.__signature__ = inspect.signature(shown)  # type: ignore[attr-defined]
        return function

    return put


def shown_without(*names: str) -> Callable[[F], F]:
    """Make `help()` leave out parameters that exist only to be refused with a good message."""

    def put(function: F) -> F:
        signature = inspect.signature(function)
        kept = [each for name, each in signature.parameters.items() if name not in names]
        function.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return function

    return put
