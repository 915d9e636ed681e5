"""Formats entries as text. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from stoatflow.explain.entry import Entry, Sort

__all__ = ["listed", "shown"]

_WIDTH = 100
_TITLES: dict[Sort, str] = {
    "error": "errors, by class or kind",
    "setting": "settings",
    "drop": "why records are dropped",
    "metric": "metrics",
    "Kafka Streams": "names of Kafka Streams' StreamsConfig that are no settings here",
}


def shown(entry: Entry) -> str:
    """Return the full text of an entry."""
    return "\n".join(_lines(entry))


def _lines(entry: Entry) -> Iterator[str]:
    yield f"{entry.name} ({entry.sort})"
    yield from _wrapped(entry.meaning, "  ")
    for name, value in entry.facts.items():
        yield from _wrapped(f"{name}: {value}", "  ")
    yield from _points("usual causes", entry.causes)
    if entry.next_step:
        yield from _wrapped(f"Next: {entry.next_step}", "  ")
    yield from _points("see", entry.see)
    yield f"  page: docs/{entry.page}"


def _points(title: str, points: Sequence[str]) -> Iterator[str]:
    if points:
        yield f"  {title}:"
    for point in points:
        yield from _wrapped(f"- {point}", "    ", "      ")


def _wrapped(text: str, indent: str, further: str = "") -> list[str]:
    # Names are not broken at hyphens, so that they can be copied.
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=further or indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def listed(entries: Sequence[Entry]) -> str:
    """Return the names of all entries, by sort."""
    blocks = []
    for sort, title in _TITLES.items():
        names = [
            f"{entry.name} ({entry.facts['kind']})" if sort == "error" else entry.name
            for entry in entries
            if entry.sort == sort
        ]
        blocks.append("\n".join([f"{title}:", *(f"  {name}" for name in names)]))
    return "\n\n".join(blocks)
