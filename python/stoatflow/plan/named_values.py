"""Values of one name, wherever they stand in a plan's JSON."""

from __future__ import annotations

from collections.abc import Iterator


def named_values(part: object, name: str) -> Iterator[object]:
    """Return them in the order in which they stand there."""
    if isinstance(part, dict):
        if name in part:
            yield part[name]
        for each in part.values():
            yield from named_values(each, name)
    elif isinstance(part, list):
        for each in part:
            yield from named_values(each, name)
