"""One dead letter, read from a record of its topic.

Takes a record with the headers of StoatFlow (`__stoatflow.errors.*`) or of Kafka Streams (`__streams.errors.*`,
KIP-1034); returns the input record, its source, and what went wrong. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

OURS = "__stoatflow.errors."
STREAMS = "__streams.errors."
REPLAY = "__stoatflow.replay."
"""Prefix of the headers that a replayed record has."""

Header: TypeAlias = tuple[str, bytes | None]
# The first header about an error; the record's own headers precede it.
_FIRST = {OURS: "application", STREAMS: "exception"}
_STREAMS_NAMES = {"stacktrace": "traceback"}


class Place(NamedTuple):
    """Topic, partition and offset of a record."""

    topic: str
    partition: int
    offset: int


class Cause(NamedTuple):
    """What letters that failed for the same reason have in common."""

    application: str | None
    node: str | None
    kind: str | None
    exception: str | None
    source: str | None

    @property
    def id(self) -> str:
        """A short name of the cause, the same in every run."""
        return _id(self)


# Cached: there are many letters and few causes.
@lru_cache
def _id(cause: Cause) -> str:
    text = "\0".join(part or "" for part in cause)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter."""

    partition: int
    """Partition of the dead-letter topic."""
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    """Headers of the input record."""
    error: Mapping[str, str]
    """What the headers say about the error, by StoatFlow's names without the prefix."""

    @property
    def source(self) -> Place | None:
        """Position of the input record; `None` if there was none, as in a punctuation."""
        topic = self.error.get("topic")
        partition, offset = _number(self.error.get("partition")), _number(self.error.get("offset"))
        if not topic or partition is None or offset is None:
            return None
        return Place(topic, partition, offset)

    @property
    def cause(self) -> Cause:
        """Why the record failed."""
        error = self.error
        exception = error.get("exception") or error.get("kind")
        return Cause(error.get("application"), error.get("node"), error.get("kind"), exception, error.get("topic"))

    @property
    def is_gone(self) -> bool:
        """Whether the input record was deleted before the letter was written; then key and value are missing."""
        return self.error.get("gone") == "true"

    @property
    def replays(self) -> int:
        """How often the record had been replayed before it failed."""
        attempts = [value for name, value in self.headers if name == f"{REPLAY}attempt"]
        return (_number((attempts[-1] or b"").decode(errors="replace")) or 0) if attempts else 0


def read(
    partition: int,
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header],
) -> DeadLetter | None:
    """Parse a record as a letter; `None` if it has no headers of a dead letter."""
    last = next((name for name, _ in reversed(headers) if name.startswith((OURS, STREAMS))), None)
    if last is None:
        return None
    family = OURS if last.startswith(OURS) else STREAMS
    # A record that was read from a dead-letter topic and failed again has both sets of headers: the last
    # one counts.
    starts = [at for at, (name, _) in enumerate(headers) if name == family + _FIRST[family]]
    start = starts[-1] if starts else next(at for at, (name, _) in enumerate(headers) if name.startswith(family))
    own, error = list(headers[:start]), dict[str, str]()
    for name, content in headers[start:]:
        if not name.startswith((OURS, STREAMS)):
            own.append((name, content))
        elif name.startswith(family) and content is not None:
            error[name.removeprefix(family)] = content.decode("utf-8", "replace")
    if family == STREAMS:
        error = _from_streams(error)
    return DeadLetter(partition, offset, timestamp, key, value, tuple(own), error)


def _from_streams(error: Mapping[str, str]) -> dict[str, str]:
    """Convert Kafka Streams' headers: the exception is `class: message`, and unknown values are -1."""
    ours = {_STREAMS_NAMES.get(name, name): text for name, text in error.items()}
    if "exception" in ours:
        ours["exception"] = ours["exception"].partition(": ")[0]
    return ours


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None
