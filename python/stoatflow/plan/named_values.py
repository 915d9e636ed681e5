"""Finds all values of one name in a plan's JSON."""

from __future__ import annotations

from collections.abc import Iterator


def named_values(part: object, name: str) -> Iterator[object]:
    """Return the values in document order."""
    if isinstance(part, dict):
        if name in part:
            yield part[name]
        for each in part.values():
            yield from named_values(each, name)
    elif isinstance(part, list):
        for each in part:
            yield from named_values(each, name)
