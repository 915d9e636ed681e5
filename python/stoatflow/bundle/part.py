"""One part of the archive, or why it is missing.

Owns the limits of how much is read, and how much of it is kept.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

READ_MOST = 16 << 20
"""Longest answer that is read to its end, in bytes."""
KEEP_MOST = 2 << 20
"""Bytes that are kept of a part; of a log the last ones."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file of the archive."""

    name: str
    """Name of the file."""
    of: str
    """Where the content comes from."""
    text: str
    answer: Any = None
    """The answer as data, for the summary."""
    note: str = ""
    is_log: bool = False
    """Whether the end of the content matters most."""
    at: float = field(default_factory=time.time)

    def content(self) -> bytes:
        """Return the content of the file."""
        whole = self.text.encode("utf-8", "backslashreplace")
        return whole[-KEEP_MOST:] if self.is_log else whole[:KEEP_MOST]

    def entry(self) -> dict[str, object]:
        """Return its entry in the manifest."""
        whole = len(self.text.encode("utf-8", "backslashreplace"))
        entry: dict[str, object] = {"file": self.name, "from": self.of, "at": utc(self.at), "bytes": whole}
        if whole > KEEP_MOST:
            entry |= {"truncated": True, "kept_bytes": KEEP_MOST}
        return entry | ({"note": self.note} if self.note else {})


@dataclass(frozen=True, slots=True)
class Missing:
    """A part that could not be collected, or was left out."""

    of: str
    reason: str
    is_failure: bool = True
    """Whether it could not be collected; false if it was not wanted."""

    def entry(self) -> dict[str, object]:
        """Return its entry in the manifest."""
        return {"from": self.of, "reason": self.reason}


def of_data(name: str, of: str, data: Any, note: str = "") -> Part:
    """Return a part of plain data."""
    return Part(name, of, json.dumps(data, ensure_ascii=False, indent=2) + "\n", data, note)


def utc(seconds: float) -> str:
    """Format a time for people and tools."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds * 1000) % 1000:03}Z"
