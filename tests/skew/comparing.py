"""StoatFlow's results compared with those of two or more runs of Kafka Streams, key by key.

Takes: results.
Gives: the differences, as readable lines; and how much could not be compared, because Kafka Streams itself gave other
    results in another run. If all of its runs gave the same records of a key in another order, the records are
    compared without the order.
Never: compares less than that.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from skew.cases import SkewCase
from skew.inputs import START
from skew.on_broker import Entry, Key, Place, Result

_SHOWN = 4


@dataclass
class Tally:
    """The number of keys, and of those for which Kafka Streams has no deterministic result."""

    all: int = 0
    unordered: int = 0
    """Compared without their order, which alone differs."""
    left_out: int = 0
    """Not compared."""

    def count(self, other: Tally) -> None:
        """Add another tally."""
        self.all += other.all
        self.unordered += other.unordered
        self.left_out += other.left_out

    @property
    def share(self) -> float:
        """The share that was left out."""
        return self.left_out / self.all if self.all else 0.0


@dataclass
class Found:
    """What a comparison found."""

    outputs: Tally = field(default_factory=Tally)
    stores: Tally = field(default_factory=Tally)
    uncertain: list[str] = field(default_factory=list)
    """Where Kafka Streams differs from itself."""
    wrong: dict[str, list[str]] = field(default_factory=dict)
    """In the output, by the number of lanes."""
    wrong_stores: dict[str, list[str]] = field(default_factory=dict)
    """In the stores, by the number of lanes."""


def _of_window(case: SkewCase) -> str | None:
    to = next(step for step in case.steps if step["op"] == "to")
    key = to["key_serde"]
    return None if key == "string" else next(name for name in key if name.endswith("_windowed"))


def _shown_time(at: int) -> str:
    return f"{(at - START) / 1000:+.3f}s"


def shown_key(case: SkewCase, key: Key) -> str:
    """A readable key, its window relative to the start of all times."""
    data, window, kind = key, "", _of_window(case)
    if kind == "time_windowed":
        data, (start,) = data[:-8], struct.unpack(">q", data[-8:])
        window = f"@{_shown_time(start)}"
    elif kind == "session_windowed":
        data, (end, start) = data[:-16], struct.unpack(">qq", data[-16:])
        window = f"@{_shown_time(start)}..{_shown_time(end)}"
    return f"{data.decode()}{window}"


def _shown_entries(case: SkewCase, entries: list[Entry]) -> str:
    to = next(step for step in case.steps if step["op"] == "to")

    def value(data: bytes | None) -> str:
        if data is None:
            return "null"
        return str(struct.unpack(">q", data)[0]) if to["value_serde"] == "long" else data.decode()

    return "[" + ", ".join(f"{value(data)} {_shown_time(at)}" for data, at in entries) + "]"


def _differing(one: Mapping[Any, Any], two: Mapping[Any, Any]) -> set[Any]:
    return {key for key in one.keys() | two.keys() if one.get(key) != two.get(key)}


def _unordered(result: Result) -> dict[Key, Counter[Entry]]:
    return {key: Counter(entries) for key, entries in result.outputs.items()}


def _reported(case: SkewCase, wanted: Result, found: Result, keys: set[Key]) -> list[str]:
    reported = []
    for key in sorted(keys)[:_SHOWN]:
        right, wrong = wanted.outputs.get(key, []), found.outputs.get(key, [])
        same = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(right, wrong, strict=False))))
        both = (_shown_entries(case, entries[same : same + 2 * _SHOWN]) for entries in (right, wrong))
        reported.append(f"{shown_key(case, key)}, after {same} that are the same: Kafka Streams {' other '.join(both)}")
    return [*reported, f"... {len(keys)} keys of {len(wanted.outputs)}"] if keys else []


def _reported_stores(wanted: Result, found: Result, places: set[Place]) -> list[str]:
    reported = [
        f"{place}: Kafka Streams {wanted.stores.get(place)}, other {found.stores.get(place)}"
        for place in sorted(places, key=str)[:_SHOWN]
    ]
    return [*reported, f"... {len(places)} rows of {len(wanted.stores)} in stores"] if places else []


def _moving(case: SkewCase) -> int:
    """How many bytes of a key are its window, if the window's start depends on the records; otherwise 0."""
    kinds = [step["window"].get("type") for step in case.steps if step["op"] == "windowed_by"]
    return 8 if "sliding" in kinds else 16 if "session" in kinds else 0


def _never_given(case: SkewCase, results: Mapping[str, Result], uncertain: set[Key]) -> set[Key]:
    """Windows that Kafka Streams never had, of keys with uncertain ones: where windows move, it might have them."""
    width = _moving(case)
    given = {key for one, result in results.items() if one.startswith("streams-") for key in result.outputs}
    inner = {key[:-width] for key in uncertain} if width else ()
    return {key for result in results.values() for key in result.outputs.keys() - given if key[:-width] in inner}


def _never_kept(case: SkewCase, results: Mapping[str, Result], uncertain: set[Place]) -> set[Place]:
    """The same for rows in stores."""
    kept = {place for one, result in results.items() if one.startswith("streams-") for place in result.stores}
    inner = {place[:2] for place in uncertain} if _moving(case) else ()
    return {place for result in results.values() for place in result.stores.keys() - kept if place[:2] in inner}


def compare(case: SkewCase, results: Mapping[str, Result]) -> Found:
    """Compare everything, except results that differ between runs of Kafka Streams."""
    first, *others = (result for one, result in results.items() if one.startswith("streams-"))
    found = Found()
    keys: set[Key] = set()
    places: set[Place] = set()
    left_out: set[Key] = set()
    all_keys, all_places = set(first.outputs), set(first.stores)
    for other in others:
        keys |= _differing(first.outputs, other.outputs)
        places |= _differing(first.stores, other.stores)
        left_out |= _differing(_unordered(first), _unordered(other))
        all_keys |= other.outputs.keys()
        all_places |= other.stores.keys()
        found.uncertain += _reported(case, first, other, keys) + _reported_stores(first, other, places)
    found.outputs = Tally(len(all_keys), len(keys - left_out), len(left_out))
    found.stores = Tally(len(all_places), 0, len(places))
    never = _never_given(case, results, keys)
    keys, left_out, places = keys | never, left_out | never, places | _never_kept(case, results, places)
    for one, result in results.items():
        if one.startswith("lanes-"):
            wrong_keys = _differing(first.outputs, result.outputs) - keys
            wrong_keys |= _differing(_unordered(first), _unordered(result)) - left_out
            wrong_places = _differing(first.stores, result.stores) - places
            found.wrong[one] = _reported(case, first, result, wrong_keys)
            found.wrong_stores[one] = _reported_stores(first, result, wrong_places)
    return found


def lines(wrong: Mapping[str, list[str]]) -> str:
    """All differences as text."""
    return "".join(f"\nwith {one}:\n    " + "\n    ".join(reported) for one, reported in wrong.items() if reported)
