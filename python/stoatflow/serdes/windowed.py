"""Keys in windows, byte for byte as Kafka Streams writes them.

Takes a serde of the key within; gives `Windowed` keys. The engine runs both in Rust; these halves serve
the test driver and the embedded broker's users.
"""

from __future__ import annotations

import struct
from typing import TypeVar

from stoatflow.errors import SerdeError
from stoatflow.serdes.base import Serde
from stoatflow.windowed import Window, Windowed

K = TypeVar("K")


class TimeWindowedSerde(Serde[Windowed[K]]):
    """The key, then the start (8 bytes). The end isn't written: a reader must know the size."""

    def __init__(self, inner: Serde[K], size_ms: int) -> None:
        """Made by `Serdes.time_windowed`."""
        self.inner = inner
        self.size_ms = size_ms

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"time_windowed({self.inner.name}, {self.size_ms} ms)"

    def serialize(self, value: Windowed[K]) -> bytes:
        """Return the bytes of a windowed key."""
        return self.inner.serialize(value.key) + struct.pack(">q", value.window.start)

    def deserialize(self, data: bytes) -> Windowed[K]:
        """Return the windowed key of the bytes."""
        _check(self, data, 8)
        (start,) = struct.unpack(">q", data[-8:])
        return Windowed(self.inner.deserialize(data[:-8]), Window(start, min(start + self.size_ms, 2**63 - 1)))


class SessionWindowedSerde(Serde[Windowed[K]]):
    """The key, then the end, then the start (8 bytes each)."""

    def __init__(self, inner: Serde[K]) -> None:
        """Made by `Serdes.session_windowed`."""
        self.inner = inner

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"session_windowed({self.inner.name})"

    def serialize(self, value: Windowed[K]) -> bytes:
        """Return the bytes of a windowed key."""
        return self.inner.serialize(value.key) + struct.pack(">qq", value.window.end, value.window.start)

    def deserialize(self, data: bytes) -> Windowed[K]:
        """Return the windowed key of the bytes."""
        _check(self, data, 16)
        end, start = struct.unpack(">qq", data[-16:])
        return Windowed(self.inner.deserialize(data[:-16]), Window(start, end))


def _check(serde: Serde[Windowed[K]], data: bytes, least: int) -> None:
    if len(data) < least:
        raise SerdeError(
            f"the serde '{serde.name}' can't read {data!r}: a windowed key has at least {least} bytes",
            next_step="read the topic with the serde it was written with",
        )
