"""One part of the archive, and why another one isn't there.

Owns the bounds: of what is read, and of what is kept of it.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

READ_MOST = 16 << 20
"""An answer of more bytes is not read to its end."""
KEEP_MOST = 2 << 20
"""Of a part, so many bytes are kept; of a log the last ones."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file of the archive."""

    name: str
    """Of the file."""
    of: str
    """Where it is from."""
    text: str
    answer: Any = None
    """The same as data, for the summary."""
    note: str = ""
    is_log: bool = False
    """The end of it counts most."""
    at: float = field(default_factory=time.time)

    def content(self) -> bytes:
        """Give what is written."""
        whole = self.text.encode("utf-8", "backslashreplace")
        return whole[-KEEP_MOST:] if self.is_log else whole[:KEEP_MOST]

    def entry(self) -> dict[str, object]:
        """Give its entry in the manifest."""
        whole = len(self.text.encode("utf-8", "backslashreplace"))
        entry: dict[str, object] = {"file": self.name, "from": self.of, "at": utc(self.at), "bytes": whole}
        if whole > KEEP_MOST:
            entry |= {"truncated": True, "kept_bytes": KEEP_MOST}
        return entry | ({"note": self.note} if self.note else {})


@dataclass(frozen=True, slots=True)
class Missing:
    """What could not be taken, or was left out."""

    of: str
    reason: str
    is_failure: bool = True
    """It could not be taken, where others were not wanted."""

    def entry(self) -> dict[str, object]:
        """Give its entry in the manifest."""
        return {"from": self.of, "reason": self.reason}


def of_data(name: str, of: str, data: Any, note: str = "") -> Part:
    """Give a part of plain data."""
    return Part(name, of, json.dumps(data, ensure_ascii=False, indent=2) + "\n", data, note)


def utc(seconds: float) -> str:
    """Give a time as people and tools read it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds * 1000) % 1000:03}Z"
