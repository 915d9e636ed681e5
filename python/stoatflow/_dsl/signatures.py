"""What functions take, also while other threads ask.

Takes a callable, gives its parameters or None. CPython 3.11.7 reads the text of a builtin's parameters with a counter
that all threads share, and fails if a garbage collection lets another thread in between (python/cpython#106905).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_TRIES = 100


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
