"""Records, changes and windows, and the order of keys.

Plain Python values: a text is `str`, a long is `int`, JSON is what `json` returns. The whole interpreter is built
on this.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

Header = tuple[str, "str | None"]


class Window(NamedTuple):
    """A time range. Its end is exclusive for time windows and inclusive for sessions and sliding windows."""

    start: int
    end: int
    session: bool = False


class Windowed(NamedTuple):
    """The key of a windowed table."""

    key: Any
    window: Window


class Stamped(NamedTuple):
    """A value in a table, and its timestamp."""

    value: Any
    timestamp: int


@dataclass(frozen=True)
class Record:
    """A record between nodes; records of tables have a `Change` as their value."""

    key: Any
    value: Any
    timestamp: int
    headers: tuple[Header, ...] = ()

    def but(self, **fields: Any) -> Record:
        """Return a copy with other fields."""
        return replace(self, **fields)


@dataclass(frozen=True)
class Change:
    """An update of a table. `latest` is false if a versioned table stored a version older than its latest."""

    new: Any
    old: Any = None
    latest: bool = True


def key_bytes(key: Any) -> bytes:
    """The bytes of a key on disk: stores are sorted by them, unsigned byte by byte."""
    if isinstance(key, Windowed):
        inner = key_bytes(key.key)
        # A session's key has the end first. No other length of key compares within it here.
        times = (key.window.end, key.window.start) if key.window.session else (key.window.start,)
        return inner + b"".join(long_bytes(time) for time in times)
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, int) and not isinstance(key, bool):
        return long_bytes(key)
    return json_text(key).encode()


def long_bytes(number: int) -> bytes:
    """A long as Kafka writes it; negative ones come after all others."""
    return number.to_bytes(8, "big", signed=True)


def json_text(value: Any) -> str:
    """The compact form, with sorted members."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def same(a: Any, b: Any) -> bool:
    """Whether they are the same on the wire. Python's `==` would take `1` for `true`."""
    return json_text(a) == json_text(b)


def value_of(stamped: Stamped | None) -> Any:
    """The value, if there is one."""
    return None if stamped is None else stamped.value
