"""Asks for confirmation before a command changes something.

Takes a question; returns whether the answer was yes. Without a terminal it raises an error that names `--yes`.
"""

from __future__ import annotations

import sys


def confirm(question: str) -> bool:
    """Ask on the terminal."""
    from stoatflow.errors import ConfigError

    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError(
            "nothing was changed: you have to confirm it, and there is no terminal to ask you on",
            next_step="add --yes to do it, or --dry-run to look only",
        )
    try:
        return input(f"{question} Type yes to do it: ").strip().lower() == "yes"
    except EOFError:
        print()
        return False
