"""Results of a run: records by topic, rows by store, or the failure. Only data."""

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
    """A row of a store; `timestamp` is missing if the store keeps none."""

    key: bytes
    window: tuple[int, int] | None
    value: bytes
    timestamp: int | None


@dataclass(frozen=True, slots=True)
class Failure:
    """The error that ended a run; `at` is the input, -1 for before the first one."""

    at: int
    name: str
    message: str
    details: str = ""


@dataclass
class Run:
    """One run of one side."""

    outputs: dict[str, list[tuple[int, Output]]] = field(default_factory=dict)
    """By topic, in order, with the number of the input that produced each."""
    stores: dict[str, list[Row]] = field(default_factory=dict)
    """By name, in the order of keys and windows."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """Stores that can't be read, and why."""
    failure: Failure | None = None

    def add(self, topic: str, at: int, record: Output) -> None:
        """Note a record."""
        self.outputs.setdefault(topic, []).append((at, record))

    def sort(self) -> None:
        """Sort the rows."""
        for rows in self.stores.values():
            rows.sort(key=lambda row: (row.key, row.window or (0, 0)))


@dataclass(frozen=True)
class Described:
    """Topics and stores of a topology."""

    name: str
    version: str
    topics: frozenset[str]
    sinks: frozenset[str]
    """Without sinks whose topic is chosen by a function."""
    stores: frozenset[str]
    text: str
