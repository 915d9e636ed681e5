"""The definition of a workload: seeded inputs, expected outputs, and how output records are read.

Shared by all workloads. Nothing depends on the clock or on the order of a set: the same load is the same input
everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from workloads.reading import Cell, Reader

TABLE_KEYS = 100_000
# 2026-01-01T00:00:00Z, a full minute: the default start of event time.
NEW_YEAR_MS = 1_767_225_600_000


@dataclass(frozen=True)
class Load:
    """A reproducible input of `records` counted records.

    Its event time begins at `base_ms`; brokers delete records that are a week old.
    """

    records: int
    seed: int
    partitions: int = 8
    table_keys: int = TABLE_KEYS
    base_ms: int = NEW_YEAR_MS


class Row(NamedTuple):
    """One record to write; without a key it has a partition, without a time the current one is used."""

    key: str | None
    value: bytes
    partition: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True)
class Input:
    """One input topic and its content; by default, the records that count."""

    name: str
    rows: Callable[[Load], Iterator[Row]]
    count: Callable[[Load], int] = lambda load: load.records


Wanted = Callable[[Load], Mapping[str, Cell]]
Settle = Callable[[Mapping[str, Cell]], Mapping[str, Cell]]


@dataclass(frozen=True)
class Output:
    """One output topic. With `updates` a row may occur again and its last value counts; without, that is a duplicate.

    `forms` are readers for engines with another format; `settle` selects which of their rows count in the end.
    """

    name: str
    read: Reader
    updates: bool
    forms: Mapping[str, Reader] = field(default_factory=dict)
    settle: Mapping[str, Settle] = field(default_factory=dict)

    def read_of(self, engine: str) -> Reader:
        """The reader of an engine's output."""
        return self.forms.get(engine, self.read)

    def settled(self, engine: str, rows: Mapping[str, Cell]) -> Mapping[str, Cell]:
        """Return those of an engine's rows that count."""
        return self.settle[engine](rows) if engine in self.settle else rows


@dataclass(frozen=True)
class Workload:
    """One job that all engines run. The rows of all its outputs together are the table that is verified."""

    name: str
    title: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    wanted: Wanted
    flavours: tuple[str, ...]
    # Engines that do something else than the job (a bare loop), and their expected output.
    limits: Mapping[str, Wanted] = field(default_factory=dict)

    def wanted_of(self, engine: str) -> Wanted:
        """The expected output of an engine."""
        return self.limits.get(engine, self.wanted)

    @property
    def engines(self) -> tuple[str, ...]:
        """All engines that have a program for it; peers.py has more."""
        return ("kstreams", *self.flavours, *self.limits)

    @property
    def updates(self) -> bool:
        """Whether engines may differ in the number of records that they write."""
        return any(output.updates for output in self.outputs)
