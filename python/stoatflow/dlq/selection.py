"""Selects dead letters, and counts them by cause.

Takes letters, returns whether each is selected, and sums by cause. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stoatflow.errors import ConfigError

if TYPE_CHECKING:
    from stoatflow.dlq.dead_letter import Cause, DeadLetter


@dataclass(frozen=True)
class Selection:
    """Conditions that a letter must all meet; an empty condition is met by every letter."""

    causes: tuple[str, ...] = ()
    """Ids of causes, or names of exceptions."""
    nodes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    """Topics of the input records."""
    since: int | None = None
    """Milliseconds since 1970."""
    places: frozenset[tuple[int, int]] = frozenset()
    """Partition and offset in the dead-letter topic."""

    def takes(self, letter: DeadLetter) -> bool:
        """Whether this letter is selected."""
        cause = letter.cause
        return (
            (not self.causes or cause.id in self.causes or cause.exception in self.causes)
            and (not self.nodes or cause.node in self.nodes)
            and (not self.sources or cause.source in self.sources)
            and (self.since is None or letter.timestamp >= self.since)
            and (not self.places or (letter.partition, letter.offset) in self.places)
        )


@dataclass
class Seen:
    """Which values of a selection occur in letters: a value that never occurs is a mistake, not an empty result."""

    causes: set[Cause] = field(default_factory=set)
    words: set[str | None] = field(default_factory=set)
    places: set[tuple[int, int]] = field(default_factory=set)

    def note(self, letter: DeadLetter, selection: Selection) -> None:
        """Note a letter, selected or not."""
        cause = letter.cause
        if cause not in self.causes:
            self.causes.add(cause)
            self.words.update((cause.id, cause.exception, cause.node, cause.source))
        place = letter.partition, letter.offset
        if place in selection.places:
            self.places.add(place)

    def check(self, selection: Selection, topic: str) -> None:
        """Raise `ConfigError` for values that no letter has."""
        unmatched = [
            *(f"--cause {word}" for word in selection.causes if word not in self.words),
            *(f"--node {word}" for word in selection.nodes if word not in self.words),
            *(f"--source {word}" for word in selection.sources if word not in self.words),
            *(f"offset {p}:{o}" for p, o in sorted(selection.places - self.places)),
        ]
        if unmatched:
            raise ConfigError(
                f"no dead letter in '{topic}' matches {', '.join(unmatched)}",
                next_step=f"see what there is: stoatflow dlq list {topic}",
            )


@dataclass
class Sum:
    """The letters of one cause."""

    cause: Cause
    first: int
    last: int
    count: int = 0
    replayed: int | None = 0
    """How many of them were replayed; `None` if unknown."""
    again: int = 0
    """How many of them are of records that had been replayed, and failed again."""

    def add(self, letter: DeadLetter, *, replayed: bool | None) -> None:
        """Count a letter."""
        self.first, self.last = min(self.first, letter.timestamp), max(self.last, letter.timestamp)
        self.count += 1
        self.replayed = None if self.replayed is None or replayed is None else self.replayed + replayed
        self.again += letter.replays > 0


def add(sums: dict[Cause, Sum], letter: DeadLetter, *, replayed: bool | None) -> None:
    """Count a letter with its cause."""
    cause = letter.cause
    if cause not in sums:
        sums[cause] = Sum(cause, letter.timestamp, letter.timestamp)
    sums[cause].add(letter, replayed=replayed)
