"""Stacks of threads: as text for the report about a stalled application, as data for `/debug/threads`.

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


_MOST_FRAMES = 60
"""Innermost calls of a stack that are shown."""


def frames() -> list[tuple[int, str | None, list[tuple[str, int, str, str]]]]:
    """Return, for each thread, its ident, its name, and its calls as file, line, function and code, innermost last."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    own = threading.get_ident()
    return [
        (ident, names.get(ident), [_shown(entry) for entry in traceback.extract_stack(frame, _MOST_FRAMES)])
        for ident, frame in sys._current_frames().items()
        if ident != own
    ]


def _shown(entry: traceback.FrameSummary) -> tuple[str, int, str, str]:
    return entry.filename, entry.lineno or 0, entry.name, entry.line or ""
