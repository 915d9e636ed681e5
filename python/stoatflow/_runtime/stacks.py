"""Stacks of threads as text, for the report about a stalled application.

Takes names of the engine's threads, returns the stacks of all threads that run Python now. Never waits for a thread.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterable


def stacks(named: Iterable[tuple[int, str]]) -> str:
    """Format all stacks, the innermost call last; `named` are engine threads, by `threading.get_ident()`."""
    names = {thread.ident: thread.name for thread in threading.enumerate()} | dict(named)
    own = threading.get_ident()
    parts = [
        f"Python, {names.get(ident, f'thread {ident}')}:\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
        if ident != own
    ]
    return "\n".join(parts)
