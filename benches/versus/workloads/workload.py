"""What a workload is: seeded inputs, the output that they must lead to, and how an output record is read.

Takes: a number of records and a seed. Gives: the words that the other rooms share.
Owns: nothing. Never: depends on the clock or on the order of a set: the same load is the same input everywhere.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

# What stands in a row of an output: a count or a sum, or the text of a JSON object (see `canonical`).
Cell = int | str
TABLE_KEYS = 100_000
_LONGEST = 120
# 2026-01-01T00:00:00Z, a full minute: where event time begins if nobody says otherwise.
NEW_YEAR_MS = 1_767_225_600_000


class Form(Exception):  # noqa: N818  # it says what is wrong with the form of a record
    """An output record that is not what the workload writes."""


@dataclass(frozen=True)
class Load:
    """A reproducible input. `base_ms` is where its event time begins; brokers delete what is a week old."""

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
    """One input topic and what is in it."""

    name: str
    rows: Callable[[Load], Iterator[Row]]
    count: Callable[[Load], int]


Reader = Callable[[bytes, bytes], tuple[str, Cell]]
Wanted = Callable[[Load], Mapping[str, Cell]]


@dataclass(frozen=True)
class Workload:
    """One job that all engines do.

    `inputs[0]` is the one whose records are counted. `read` makes a row's identity and value of an output record.
    With `updates` an identity may come again and its last value counts; without, a second one is a duplicate.
    """

    name: str
    title: str
    inputs: tuple[Input, ...]
    wanted: Wanted
    read: Reader
    updates: bool
    flavours: tuple[str, ...]
    # Engines that do something else than the job (a bare loop), and what they must leave behind.
    limits: Mapping[str, Wanted] = field(default_factory=dict)

    def wanted_of(self, engine: str) -> Wanted:
        """What an engine's output must be."""
        return self.limits.get(engine, self.wanted)

    @property
    def engines(self) -> tuple[str, ...]:
        """All that can do it."""
        return ("kstreams", *self.flavours, *self.limits)


def canonical(value: Any) -> str:
    """A JSON object as one text, whatever the order of its members; a hash stands for the rest of a long one."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]} {hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"


def long_by_text(key: bytes, value: bytes) -> tuple[str, Cell]:
    """A record of a string key and a Long."""
    if len(value) != 8:
        raise Form(f"not a string key and a long but {value[:40]!r}")
    (number,) = struct.unpack(">q", value)
    return key.decode(), number


def object_by_id(_: bytes, value: bytes) -> tuple[str, Cell]:
    """A record that is a JSON object with an `id`."""
    try:
        found = json.loads(value)
        return str(found["id"]), canonical(found)
    except (ValueError, TypeError, KeyError) as error:
        raise Form(f"not a JSON object with an id but {value[:80]!r}") from error
