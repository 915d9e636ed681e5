"""What functions take, also while other threads ask; and what `help()` shows of those that take anything.

`signature_of` takes a callable, gives its parameters or None. CPython 3.11.7 reads the text of a builtin's parameters
with a counter that all threads share, and fails if a garbage collection lets another thread in between
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
    """Give the parameters; None for a builtin or an extension's that doesn't tell."""
    for _ in range(_TRIES):
        with suppress(SystemError):  # another thread came between: nothing is wrong with the function
            return _told(function)
    return None


def _told(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):
        return None


def shown_as(shown: Callable[..., Any]) -> Callable[[F], F]:
    """Have `help()` and `inspect.signature` show the parameters of `shown`, whatever the function itself takes."""

    def put(function: F) -> F:
        function.__signature__ = inspect.signature(shown)  # type: ignore[attr-defined]
        return function

    return put


def shown_without(*names: str) -> Callable[[F], F]:
    """Have `help()` leave out parameters that are there only to be refused with a good message."""

    def put(function: F) -> F:
        signature = inspect.signature(function)
        kept = [each for name, each in signature.parameters.items() if name not in names]
        function.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return function

    return put
