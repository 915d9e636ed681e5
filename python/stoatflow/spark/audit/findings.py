"""The result of a reconciliation: numbers, examples, a verdict; as JSON and as text.

Works without Spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from stoatflow.spark.audit import compare

MEANINGS = {
    compare.MISSING: "expected, and not in the topic",
    compare.ABORTED: "expected, and in the topic only within a transaction that was aborted",
    compare.DUPLICATED: "in the topic more often than expected",
    compare.WRONG: "with another value or timestamp than expected",
    compare.EXTRA: "in the topic, and not expected",
    compare.DISORDERED: "behind a record that it should stand before",
    compare.SPLIT: "keys in several partitions",
}

CHECKED = {
    "all": "every record",
    "last": "the last record of each key",
    "final": "the last value of each key",
}
"""What was checked, by the updates of a topic."""


@dataclass(frozen=True)
class AuditExample:
    """A fault with its position."""

    topic: str
    fault: str
    key: str
    expected: str | None = None
    found: str | None = None
    partition: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        """Format it on one line."""
        place = "" if self.offset is None else f" (partition {self.partition}, offset {self.offset})"
        if self.fault == compare.WRONG:
            return f"{self.key}: {self.found} instead of {self.expected}{place}"
        return f"{self.key}: {self.found if self.found is not None else self.expected}{place}"


@dataclass(frozen=True)
class TopicAudit:
    """The actual content of one output topic compared with the expected one."""

    topic: str
    updates: str
    """`all`: every expected record must be there; `last`: the last one of each key; `compare_last`: its value."""
    expected: int = 0
    found: int = 0
    keys: int = 0
    faults: Mapping[str, int] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether there is no fault."""
        return not any(self.faults.values())


@dataclass(frozen=True)
class DropAudit:
    """Number of records dropped for one reason."""

    reason: str
    expected: int
    """Dropped by the twin."""
    counted: int
    """Counted by the engine."""
    nodes: Mapping[str, int] = field(default_factory=dict)
    """Number dropped by the twin, by node."""

    @property
    def ok(self) -> bool:
        """Whether both numbers are equal."""
        return self.expected == self.counted


@dataclass(frozen=True)
class Audit:
    """The reconciliation of a topology."""

    topics: tuple[TopicAudit, ...]
    inputs: Mapping[str, int]
    """Number of records of each input topic."""
    keyless: int = 0
    """Number of input records without a key: aggregations and joins drop these, as the twin does."""
    examples: tuple[AuditExample, ...] = ()
    seconds: float = 0.0
    drops: tuple[DropAudit, ...] | None = None
    """Dropped records by reason, if the engine's counters were given."""

    @property
    def ok(self) -> bool:
        """Whether everything is correct. An input without records proves nothing."""
        agree = all(topic.ok for topic in self.topics) and all(drop.ok for drop in self.drops or ())
        return agree and sum(self.inputs.values()) > 0

    def count(self, fault: str) -> int:
        """Number of faults of a kind."""
        return sum(topic.faults.get(fault, 0) for topic in self.topics)

    @property
    def verdict(self) -> str:
        """Summary in one sentence."""
        if self.ok:
            return "OK: the topics hold what the input demands"
        if sum(self.inputs.values()) == 0:
            return "NOT PROVEN: the input is empty. Are these the right topics?"
        return (
            "NOT OK: see the faults" if any(not topic.ok for topic in self.topics) else "NOT OK: see what was dropped"
        )

    def to_json(self) -> str:
        """Return everything as one JSON object."""
        content = {
            "ok": self.ok,
            "verdict": self.verdict,
            "inputs": dict(self.inputs),
            "inputs_without_key": self.keyless,
            "faults": {fault: self.count(fault) for fault in compare.FAULTS},
            "topics": [asdict(topic) for topic in self.topics],
            "drops": None if self.drops is None else [asdict(drop) for drop in self.drops],
            "examples": [asdict(example) for example in self.examples],
            "seconds": round(self.seconds, 3),
        }
        return json.dumps(content, ensure_ascii=False, indent=2)

    def render(self) -> str:
        """Return the report for a terminal."""
        lines = ["Reconciliation"]
        lines += [f"  read     {name}: {count:,} records" for name, count in self.inputs.items()]
        if self.keyless:
            lines.append(f"           {self.keyless:,} of them without a key")
        for topic in self.topics:
            lines.append(
                f"  checked  {topic.topic}: {topic.expected:,} expected, {topic.found:,} found, {topic.keys:,} keys; "
                f"{CHECKED[topic.updates]}"
            )
            for fault in compare.FAULTS:
                if count := topic.faults.get(fault, 0):
                    lines.append(f"    {count:,} {fault}: {MEANINGS[fault]}, such as")
                    lines += [
                        f"      {each}" for each in self.examples if (each.topic, each.fault) == (topic.topic, fault)
                    ]
        for drop in self.drops or ():
            lines.append(f"  dropped  {drop.reason}: {drop.expected:,} expected, {drop.counted:,} counted")
            if not drop.ok:
                lines += [f"      {count:,} at {node}" for node, count in drop.nodes.items()]
        return "\n".join([*lines, f"  verdict  {self.verdict}", f"  seconds  {self.seconds:.1f}"])
