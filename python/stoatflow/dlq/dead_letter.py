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
    told = "\0".join(part or "" for part in cause)
    return hashlib.sha256(told.encode()).hexdigest()[:8]


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
    told: Mapping[str, str]
    """What the headers say about the error, by StoatFlow's names without the prefix."""

    @property
    def source(self) -> Place | None:
        """Position of the input record; `None` if there was none, as in a punctuation."""
        topic = self.told.get("topic")
        partition, offset = _number(self.told.get("partition")), _number(self.told.get("offset"))
        if not topic or partition is None or offset is None:
            return None
        return Place(topic, partition, offset)

    @property
    def cause(self) -> Cause:
        """Why the record failed."""
        told = self.told
        exception = told.get("exception") or told.get("kind")
        return Cause(told.get("application"), told.get("node"), told.get("kind"), exception, told.get("topic"))

    @property
    def is_gone(self) -> bool:
        """Whether the input record was deleted before the letter was written; then key and value are missing."""
        return self.told.get("gone") == "true"

    @property
    def replays(self) -> int:
        """How often the record had been replayed before it failed."""
        told = [value for name, value in self.headers if name == f"{REPLAY}attempt"]
        return (_number((told[-1] or b"").decode(errors="replace")) or 0) if told else 0


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
    own, told = list(headers[:start]), dict[str, str]()
    for name, content in headers[start:]:
        if not name.startswith((OURS, STREAMS)):
            own.append((name, content))
        elif name.startswith(family) and content is not None:
            told[name.removeprefix(family)] = content.decode("utf-8", "replace")
    if family == STREAMS:
        told = _from_streams(told)
    return DeadLetter(partition, offset, timestamp, key, value, tuple(own), told)


def _from_streams(told: Mapping[str, str]) -> dict[str, str]:
    """Convert Kafka Streams' headers: the exception is `class: message`, and unknown values are -1."""
    ours = {_STREAMS_NAMES.get(name, name): text for name, text in told.items()}
    if "exception" in ours:
        ours["exception"] = ours["exception"].partition(": ")[0]
    return ours


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None
