"""Windowed keys, byte for byte as in Kafka Streams.

Takes a serde of the inner key; returns serdes of `Windowed` keys. The engine runs both in Rust; the Python versions are
for the test driver and users of the embedded broker.
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
        """Created by `Serdes.time_windowed`."""
        self.inner = inner
        self.size_ms = size_ms

    @property
    def name(self) -> str:
        """Name of the serde in messages."""
        return f"time_windowed({self.inner.name}, {self.size_ms} ms)"

    def serialize(self, value: Windowed[K]) -> bytes:
        """Serialize a windowed key."""
        return self.inner.serialize(value.key) + struct.pack(">q", value.window.start)

    def deserialize(self, data: bytes) -> Windowed[K]:
        """Deserialize a windowed key."""
        _check(self, data, 8)
        (start,) = struct.unpack(">q", data[-8:])
        return Windowed(self.inner.deserialize(data[:-8]), Window(start, min(start + self.size_ms, 2**63 - 1)))


class SessionWindowedSerde(Serde[Windowed[K]]):
    """The key, then the end, then the start (8 bytes each)."""

    def __init__(self, inner: Serde[K]) -> None:
        """Created by `Serdes.session_windowed`."""
        self.inner = inner

    @property
    def name(self) -> str:
        """Name of the serde in messages."""
        return f"session_windowed({self.inner.name})"

    def serialize(self, value: Windowed[K]) -> bytes:
        """Serialize a windowed key."""
        return self.inner.serialize(value.key) + struct.pack(">qq", value.window.end, value.window.start)

    def deserialize(self, data: bytes) -> Windowed[K]:
        """Deserialize a windowed key."""
        _check(self, data, 16)
        end, start = struct.unpack(">qq", data[-16:])
        return Windowed(self.inner.deserialize(data[:-16]), Window(start, end))


def _check(serde: Serde[Windowed[K]], data: bytes, least: int) -> None:
    if len(data) < least:
        raise SerdeError(
            f"the serde '{serde.name}' can't read {data!r}: a windowed key has at least {least} bytes",
            next_step="read the topic with the serde it was written with",
        )
