"""How a benchmark ends when it is told to: with all that it started.

Takes: SIGTERM. Gives: an exit, so that every `finally` on the way out stops its process. Owns: that one handler.
Never: is called when a benchmark is imported; touches Ctrl-C, which does the same by itself.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn


def stop_with_all_of_it() -> None:
    """From now on SIGTERM is an exit. Without this Python would be gone at once, and its engine would go on."""

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        del frame
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)
