"""Records, changes and windows, and the order of keys.

Takes and gives plain Python values: a text is `str`, a long is `int`, JSON is what `json` gives.
Everything else of the interpreter stands on this.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

Header = tuple[str, "str | None"]


class Window(NamedTuple):
    """A stretch of time. Its end is outside for time windows and inside for sessions and sliding windows."""

    start: int
    end: int
    session: bool = False


class Windowed(NamedTuple):
    """The key of a windowed table."""

    key: Any
    window: Window


class Stamped(NamedTuple):
    """A value in a table, and its time."""

    value: Any
    timestamp: int


@dataclass(frozen=True)
class Record:
    """One record on its way; what flows out of tables has a `Change` as its value."""

    key: Any
    value: Any
    timestamp: int
    headers: tuple[Header, ...] = ()

    def but(self, **fields: Any) -> Record:
        """Give it with other fields."""
        return replace(self, **fields)


@dataclass(frozen=True)
class Change:
    """An update of a table. `latest` is false where a versioned table took in something older than it has."""

    new: Any
    old: Any = None
    latest: bool = True


def key_bytes(key: Any) -> bytes:
    """Give what a key looks like on disk: stores are sorted by it, unsigned byte by byte."""
    if isinstance(key, Windowed):
        inner = key_bytes(key.key)
        # A session's key holds the end first. No other length of key compares within it here.
        times = (key.window.end, key.window.start) if key.window.session else (key.window.start,)
        return inner + b"".join(long_bytes(time) for time in times)
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, int) and not isinstance(key, bool):
        return long_bytes(key)
    return json_text(key).encode()


def long_bytes(number: int) -> bytes:
    """Give a long as Kafka writes it; negative ones come after all others."""
    return number.to_bytes(8, "big", signed=True)


def json_text(value: Any) -> str:
    """Give the compact form, with sorted members."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def same(a: Any, b: Any) -> bool:
    """Are they the same on the wire? Python's `==` would take `1` for `true`."""
    return json_text(a) == json_text(b)


def value_of(stamped: Stamped | None) -> Any:
    """Give the value if there is one."""
    return None if stamped is None else stamped.value
