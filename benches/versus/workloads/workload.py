"""What a workload is: seeded inputs, the outputs that they must lead to, and how an output record is read.

Takes: a number of records and a seed. Gives: the words that the other rooms share.
Owns: nothing. Never: depends on the clock or on the order of a set: the same load is the same input everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from workloads.reading import Cell, Reader

TABLE_KEYS = 100_000
# 2026-01-01T00:00:00Z, a full minute: where event time begins if nobody says otherwise.
NEW_YEAR_MS = 1_767_225_600_000


@dataclass(frozen=True)
class Load:
    """A reproducible input of so many records that count.

    Its event time begins at `base_ms`; brokers delete what is a week old.
    """

    records: int
    seed: int
    partitions: int = 8
    table_keys: int = TABLE_KEYS
    base_ms: int = NEW_YEAR_MS


class Row(NamedTuple):
    """One record to write; without a key it says its partition, without a time it gets the present one."""

    key: str | None
    value: bytes
    partition: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True)
class Input:
    """One input topic and what is in it; unless it says otherwise, the records that count."""

    name: str
    rows: Callable[[Load], Iterator[Row]]
    count: Callable[[Load], int] = lambda load: load.records


Wanted = Callable[[Load], Mapping[str, Cell]]
Settle = Callable[[Mapping[str, Cell]], Mapping[str, Cell]]


@dataclass(frozen=True)
class Output:
    """One output topic. With `updates` a row may come again and its last value counts; without, that is a duplicate.

    `forms` are those of engines that write the same in another way; `settle` says which of their rows count in the end.
    """

    name: str
    read: Reader
    updates: bool
    forms: Mapping[str, Reader] = field(default_factory=dict)
    settle: Mapping[str, Settle] = field(default_factory=dict)

    def read_of(self, engine: str) -> Reader:
        """How to read what an engine has written."""
        return self.forms.get(engine, self.read)

    def settled(self, engine: str, rows: Mapping[str, Cell]) -> Mapping[str, Cell]:
        """Those of the rows that an engine has left that count."""
        return self.settle[engine](rows) if engine in self.settle else rows


@dataclass(frozen=True)
class Workload:
    """One job that all engines do. The rows of all its outputs together are the table that is checked."""

    name: str
    title: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    wanted: Wanted
    flavours: tuple[str, ...]
    # Engines that do something else than the job (a bare loop), and what they must leave behind.
    limits: Mapping[str, Wanted] = field(default_factory=dict)

    def wanted_of(self, engine: str) -> Wanted:
        """What an engine's output must be."""
        return self.limits.get(engine, self.wanted)

    @property
    def engines(self) -> tuple[str, ...]:
        """All that can do it; peers.py has more."""
        return ("kstreams", *self.flavours, *self.limits)

    @property
    def updates(self) -> bool:
        """May engines differ in how many records they write?"""
        return any(output.updates for output in self.outputs)
