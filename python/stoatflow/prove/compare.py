"""Finds the first difference between two runs of the same inputs.

Takes two `Run`s; returns a `Difference`, or nothing. Topics are compared input by input, in the order of their records;
stores by their final state. Pure.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from stoatflow.prove.runs import Failure, Output, Row, Run

Kind: TypeAlias = Literal["record", "order", "row", "failure"]
Part: TypeAlias = Literal["key", "value", "timestamp", "headers"]
PARTS: tuple[Part, ...] = ("key", "value", "timestamp", "headers")


@dataclass(frozen=True)
class Difference:
    """The first difference."""

    kind: Kind
    place: str
    """The topic or store; for a failure, the side that failed."""
    at: int | None
    """Number of the input that produced it; stores are compared after all inputs."""
    java: Output | Row | None = None
    python: Output | Row | None = None
    parts: tuple[Part, ...] = ()
    """The parts of the records that differ, if both exist."""
    java_failure: Failure | None = None
    python_failure: Failure | None = None
    java_all: tuple[Output, ...] = ()
    python_all: tuple[Output, ...] = ()
    """For a topic, all records that this input produced."""

    def is_like(self, other: Difference) -> bool:
        """Whether it is in the same place."""
        return (self.kind == "failure", self.kind == "row", self.place) == (
            other.kind == "failure",
            other.kind == "row",
            other.place,
        )


@dataclass(frozen=True)
class Rules:
    """How to compare."""

    same_json: bool = False
    """JSON values that are equal are the same, whatever their text."""
    stores: tuple[tuple[str, str], ...] = ()
    """Stores to compare: names in Java and in Python."""


def compare(java: Run, python: Run, rules: Rules) -> Difference | None:
    """Return the first difference."""
    ends = [run.failure.at for run in (java, python) if run.failure is not None]
    # The outputs of the input that failed are not committed, or incomplete.
    end = min(ends, default=None)
    found = _records(java, python, rules, end)
    if found is not None:
        return found
    if end is None:
        return _stores(java, python, rules)
    failures = [run.failure if run.failure is not None and run.failure.at == end else None for run in (java, python)]
    if None not in failures:
        return None
    side = "Java" if failures[0] is not None else "Python"
    return Difference("failure", side, end, java_failure=failures[0], python_failure=failures[1])


def failed_together(java: Run, python: Run) -> int | None:
    """Return the input at which both failed, if it is the same."""
    if java.failure is None or python.failure is None or java.failure.at != python.failure.at:
        return None
    return java.failure.at


def _records(java: Run, python: Run, rules: Rules, end: int | None) -> Difference | None:
    first: tuple[int, str] | None = None
    for topic in sorted(java.outputs.keys() | python.outputs.keys()):
        at = _first(java.outputs.get(topic, []), python.outputs.get(topic, []), rules)
        if at is not None and (end is None or at < end) and (first is None or at < first[0]):
            first = at, topic
    if first is None:
        return None
    at, topic = first
    ours, theirs = ([one for i, one in run.outputs.get(topic, ()) if i == at] for run in (python, java))
    return _of_input(topic, at, theirs, ours, rules)


def _first(java: list[tuple[int, Output]], python: list[tuple[int, Output]], rules: Rules) -> int | None:
    for (left_at, left), (right_at, right) in zip(java, python, strict=False):
        if left_at != right_at or _differ(left, right, rules):
            return min(left_at, right_at)
    shorter = min(len(java), len(python))
    return next((at for at, _ in [*java[shorter:], *python[shorter:]]), None)


def _of_input(topic: str, at: int, java: list[Output], python: list[Output], rules: Rules) -> Difference:
    found = Difference("record", topic, at, java_all=tuple(java), python_all=tuple(python))
    if Counter(_plain(one, rules) for one in java) == Counter(_plain(one, rules) for one in python):
        place = next(i for i, (left, right) in enumerate(zip(java, python, strict=True)) if _differ(left, right, rules))
        return replace(found, kind="order", java=java[place], python=python[place])
    for place in range(max(len(java), len(python))):
        left = java[place] if place < len(java) else None
        right = python[place] if place < len(python) else None
        if left is None or right is None:
            return replace(found, java=left, python=right)
        parts = _differ(left, right, rules)
        if parts:
            # One extra record on a side shifts the others: report the extra one.
            if len(java) > len(python) and left not in python:
                return replace(found, java=left)
            if len(python) > len(java) and right not in java:
                return replace(found, python=right)
            return replace(found, java=left, python=right, parts=parts)
    raise AssertionError("they differ, so there is a first place")


def _stores(java: Run, python: Run, rules: Rules) -> Difference | None:
    for theirs, ours in rules.stores:
        left = {(row.key, row.window): row for row in java.stores.get(theirs, ())}
        right = {(row.key, row.window): row for row in python.stores.get(ours, ())}
        for place in sorted(left.keys() | right.keys(), key=lambda one: (one[0], one[1] or (0, 0))):
            one, other = left.get(place), right.get(place)
            if one is None or other is None:
                return Difference("row", ours, None, one, other)
            if one.timestamp is None or other.timestamp is None:
                one, other = replace(one, timestamp=None), replace(other, timestamp=None)
            parts = _differ(one, other, rules)
            if parts:
                return Difference("row", ours, None, one, other, parts)
    return None


def _differ(java: Output | Row, python: Output | Row, rules: Rules) -> tuple[Part, ...]:
    if java == python:
        return ()
    left, right = _plain(java, rules), _plain(python, rules)
    return tuple(part for part in PARTS if getattr(left, part, None) != getattr(right, part, None))


def _plain(one: Output | Row, rules: Rules) -> Output | Row:
    if not rules.same_json or one.value is None:
        return one
    try:
        parsed = json.loads(one.value)
    except ValueError:
        return one
    # 1 and 1.0 are the same number in JSON, and equal in Python; true is not a number.
    return replace(one, value=json.dumps(_numbers(parsed), sort_keys=True).encode())


def _numbers(parsed: object) -> object:
    if isinstance(parsed, dict):
        return {name: _numbers(value) for name, value in parsed.items()}
    if isinstance(parsed, list):
        return [_numbers(value) for value in parsed]
    if isinstance(parsed, float) and parsed.is_integer() and abs(parsed) < 2**53:
        return int(parsed)
    return parsed
