"""`--json` of all commands: one JSON object or array on stdout, and nothing else there.

Takes the parsed arguments and data. While a command runs with `--json`, all other output goes to stderr, also what a
user's file prints.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = ["add_json", "only_json", "print_json", "print_json_line"]


def add_json(parser: argparse._ActionsContainer, what: str = "a JSON object") -> None:
    """Add the option."""
    parser.add_argument("--json", action="store_true", help=f"print {what}")


@contextlib.contextmanager
def only_json(given: argparse.Namespace) -> Iterator[None]:
    """Keep stdout for `print_json` if the command was called with `--json`."""
    if not getattr(given, "json", False):
        yield
        return
    given.stdout = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        yield
        given.stdout.flush()


def print_json(given: argparse.Namespace, data: object) -> None:
    """Print the result of a command."""
    _print(given, data, indent=2)


def print_json_line(given: argparse.Namespace, data: object, default: Callable[[Any], str] | None = None) -> None:
    """Print one of many rows; `default` converts what JSON has no type for."""
    _print(given, data, default=default)


def _print(given: argparse.Namespace, data: object, **how: Any) -> None:
    out = getattr(given, "stdout", None) or sys.stdout
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, **how)
    except ValueError:
        data = _without_nan(data)
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, **how)
    try:
        text.encode(out.encoding or "utf-8")
    except UnicodeEncodeError:  # another encoding than UTF-8, or a file name that is no text
        text = json.dumps(data, allow_nan=False, **how)
    print(text, file=out)


def _without_nan(data: object) -> object:
    """Replace numbers that JSON doesn't have by null."""
    if isinstance(data, dict):
        return {key: _without_nan(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_without_nan(each) for each in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
