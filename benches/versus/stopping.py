"""Ends a benchmark on SIGTERM, with all processes that it started.

Turns SIGTERM into an exit, so that every `finally` on the way out stops its process. Not called when a benchmark is
imported; Ctrl-C already does the same.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn


def stop_with_all_of_it() -> None:
    """Turn SIGTERM into an exit from now on. Without this Python would end at once, and its engine would go on."""

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        del frame
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)
