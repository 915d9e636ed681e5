"""Prints errors on the command line: what happened, what to do next, and where to read more."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoatflow.errors import StoatFlowError

__all__ = ["print_error"]


def print_error(error: StoatFlowError) -> None:
    """Print the error on stderr."""
    print(f"stoatflow: {error}\n{error.more}", file=sys.stderr)
