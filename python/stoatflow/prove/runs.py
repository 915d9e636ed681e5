"""What a side makes of inputs: records by topic, rows by store, or where it failed. Only data."""

from __future__ import annotations

from dataclasses import dataclass, field

from stoatflow.prove.inputs import Header


@dataclass(frozen=True, slots=True)
class Output:
    """A record of an output topic."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a store; `timestamp` is missing where the store keeps none."""

    key: bytes
    window: tuple[int, int] | None
    value: bytes
    timestamp: int | None


@dataclass(frozen=True, slots=True)
class Failure:
    """What ended a run; `at` is the input, -1: before the first."""

    at: int
    name: str
    message: str
    details: str = ""


@dataclass
class Run:
    """One run of one side."""

    outputs: dict[str, list[tuple[int, Output]]] = field(default_factory=dict)
    """By topic, in order, with the number of the input that each came with."""
    stores: dict[str, list[Row]] = field(default_factory=dict)
    """By name, in the order of keys and windows."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """Stores that can't be looked into, and why."""
    failure: Failure | None = None

    def add(self, topic: str, at: int, record: Output) -> None:
        """Note a record."""
        self.outputs.setdefault(topic, []).append((at, record))

    def sort(self) -> None:
        """Put the rows in order."""
        for rows in self.stores.values():
            rows.sort(key=lambda row: (row.key, row.window or (0, 0)))


@dataclass(frozen=True)
class Described:
    """What a topology reads, writes and keeps."""

    name: str
    version: str
    topics: frozenset[str]
    sinks: frozenset[str]
    """Without those whose topic a function gives."""
    stores: frozenset[str]
    text: str
