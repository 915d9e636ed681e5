"""How the command line says an error: what happened, what to do next, and where more of it stands."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoatflow.errors import StoatFlowError

__all__ = ["say_error"]


def say_error(error: StoatFlowError) -> None:
    """Say it on stderr."""
    print(f"stoatflow: {error}\nmore: stoatflow explain {error.kind}", file=sys.stderr)
