"""The result of a reconciliation, for programs and for people.

Takes counts of faults by kind, and examples. `Reconciliation` has a verdict, JSON, and a report of a dozen lines.
Defines the kinds of faults, and which of the three headline numbers each one counts into. A result can be kept, printed
and compared without Spark.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Fault(enum.Enum):
    """Kinds of faults of an output topic: headline and meaning."""

    MISSING_WORD = ("missing", "words of the input without any output")
    MISSING_UPDATE = ("missing", "updates that were never emitted")
    REPEATED = ("duplicated", "updates emitted again (same value)")
    WENT_BACK = ("duplicated", "updates below an earlier one")
    WRONG_COUNT = ("wrong", "words whose last count is not the true one")
    EXTRA_WORD = ("wrong", "keys that are no word of the input")
    BAD_VALUE = ("wrong", "values that are no count")
    SPLIT_KEY = ("wrong", "keys spread over several partitions")

    def __init__(self, headline: str, meaning: str) -> None:
        """Keep the headline that a fault counts into, and its meaning in words."""
        self.headline = headline
        self.meaning = meaning


@dataclass(frozen=True)
class Example:
    """One fault, with its position. Numbers that do not apply are None."""

    fault: Fault
    key: str | None
    expected: int | None = None
    actual: int | None = None
    partition: int | None = None
    offset: int | None = None

    def __str__(self) -> str:  # noqa: PLR0911 (one line per kind of fault reads best)
        """Return one line: the word, what was expected, what was found, and where."""
        place = "" if self.offset is None else f" (partition {self.partition}, offset {self.offset})"
        key = "a null key" if self.key is None else repr(self.key)
        match self.fault:
            case Fault.MISSING_WORD:
                return f"{key} occurs {self.expected} times in the input and never in the output"
            case Fault.MISSING_UPDATE:
                return f"{key} lacks {self.actual} of its {self.expected} updates"
            case Fault.REPEATED:
                return f"{key} counts {self.actual} again{place}"
            case Fault.WENT_BACK:
                return f"{key} counts {self.actual} after {self.expected}{place}"
            case Fault.WRONG_COUNT:
                return f"{key} ends at {self.actual} instead of {self.expected}{place}"
            case Fault.EXTRA_WORD:
                return f"{key} is no word of the input, and ends at {self.actual}{place}"
            case Fault.BAD_VALUE:
                found = "is missing or malformed" if self.actual is None else f"is {self.actual}"
                return f"{key} has a value that {found}{place}"
            case Fault.SPLIT_KEY:
                return f"{key} is in {self.actual} partitions"

    def to_dict(self) -> dict[str, str | int | None]:
        """Return the fields for JSON."""
        return {
            "fault": self.fault.name.lower(),
            "key": self.key,
            "expected": self.expected,
            "actual": self.actual,
            "partition": self.partition,
            "offset": self.offset,
            "text": str(self),
        }


@dataclass(frozen=True)
class Reconciliation:
    """The content of a word count's output topic compared with what follows from its input topic."""

    input_records: int
    input_words: int
    expected_keys: int
    output_records: int
    output_keys: int
    every_update: bool
    faults: Mapping[Fault, int] = field(default_factory=dict)
    examples: tuple[Example, ...] = ()
    seconds: float = 0.0

    @property
    def missing(self) -> int:
        """Number of expected outputs that are missing: words, and updates if all are checked."""
        return self._headline("missing")

    @property
    def duplicated(self) -> int:
        """Number of outputs that repeat, or fall behind, an earlier count of their key."""
        return self._headline("duplicated")

    @property
    def wrong(self) -> int:
        """Number of wrong keys or values in the output."""
        return self._headline("wrong")

    @property
    def ok(self) -> bool:
        """Whether the output is proven right; an input without a word proves nothing."""
        return self.input_words > 0 and not any(self.faults.values())

    def _headline(self, name: str) -> int:
        return sum(count for fault, count in self.faults.items() if fault.headline == name)

    def to_json(self) -> str:
        """Return everything as one JSON object."""
        content = {
            "ok": self.ok,
            "input_records": self.input_records,
            "input_words": self.input_words,
            "expected_keys": self.expected_keys,
            "output_records": self.output_records,
            "output_keys": self.output_keys,
            "every_update": self.every_update,
            "missing": self.missing,
            "duplicated": self.duplicated,
            "wrong": self.wrong,
            "faults": {fault.name.lower(): self.faults.get(fault, 0) for fault in Fault},
            "examples": [example.to_dict() for example in self.examples],
            "seconds": round(self.seconds, 3),
        }
        return json.dumps(content, ensure_ascii=False)

    def render(self) -> str:
        """Return the report for a person: about a dozen aligned lines, then faults with examples if there are any."""
        rows = [
            ("input records", self.input_records, ""),
            ("input words", self.input_words, "what the last counts must add up to"),
            ("output records", self.output_records, "committed updates of counts"),
            ("expected keys", self.expected_keys, "different words of the input"),
            ("output keys", self.output_keys, ""),
            ("missing", self.missing, ""),
            ("duplicated", self.duplicated, ""),
            ("wrong", self.wrong, ""),
        ]
        checked = "every update" if self.every_update else "last count per word, and that counts only grow"
        lines = ["Reconciliation of a word count", f"  {'checked':<15} {checked}"]
        lines += [f"  {name:<15} {number:>14,}   {note}".rstrip() for name, number, note in rows]
        lines.append(f"  {'seconds':<15} {self.seconds:>14.1f}")
        for fault in Fault:
            if count := self.faults.get(fault, 0):
                lines.append(f"  {count:,} {fault.meaning}, such as")
                lines += [f"    {example}" for example in self.examples if example.fault is fault]
        lines.append(f"  {'verdict':<15} {self._verdict()}")
        return "\n".join(lines)

    def _verdict(self) -> str:
        if self.ok:
            return "OK: nothing lost, nothing counted twice"
        if self.input_words == 0:
            return "NOT PROVEN: the input has no word. Is this the right topic, and was it loaded?"
        return "NOT OK: see the examples above; offsets are those of the output topic"
