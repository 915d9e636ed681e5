"""Where a user wrote an expression: file and line.

Takes the stack when an operator runs, returns file and line. Costs a walk over a few frames, once, while a topology is
built. Never reads a file.
"""

from __future__ import annotations

import os
import sys
from typing import TypeAlias

Place: TypeAlias = "tuple[str, int]"

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def here() -> Place:
    """Return the nearest line outside the package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def shown(place: Place) -> str:
    """Return `app.py:12`, the same on every machine."""
    from stoatflow.plan.functions import _short

    return f"{_short(place[0])}:{place[1]}"
