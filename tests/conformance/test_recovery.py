"""Lanes, batches, back ends and crashes change nothing for a key.

Every vector runs in all ways in memory, with a crash at every epoch; some of them on a disk, with a few
crashes, the same in every run. `STOATFLOW_RECOVERY=all` runs all in all ways.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from conformance import recovery, runner
from conformance.recovery import Way
from conformance.runner import Case

ALL = os.environ.get("STOATFLOW_RECOVERY") == "all"


DEPENDENT = recovery.dependent()
NOT_YET = {line.partition(":")[0] for line in recovery.listed("not_yet.txt")}
CASES = [case for case in runner.cases() if case.place not in NOT_YET]


def ways(case: Case) -> list[Way]:
    """Give the ways in which a vector is run."""
    dependent = DEPENDENT.get(case.place)
    every = [dependent.instead(way) if dependent else way for way in recovery.ways()]
    if ALL:
        return sorted(set(every), key=str)
    memory = [way for way in every if way.back_end == "in_memory"]
    # A restart on a disk takes its time: a few crashes there, for some of the vectors.
    seldom = -(-len(case.data["inputs"]) // 3)
    disk = [replace(way, every=way.every and seldom) for way in every if way.back_end == "rocksDB"]
    number = recovery.number(case.name)
    sample = disk[number // 3 % len(disk) :][:1] if number % 3 == 0 else []
    return sorted({*memory, *sample}, key=str)


@pytest.mark.parametrize(("case", "way"), [pytest.param(c, w, id=f"{c.name}-{w}") for c in CASES for w in ways(c)])
def test_nothing_changes_for_a_key(case: Case, way: Way) -> None:
    found = recovery.run(case, runner.build(case), way)
    dependent = DEPENDENT.get(case.place)
    for topic, records in case.data["outputs"].items():
        wanted, got = without_input(records), without_input(found.outputs[topic])
        if (
            dependent and dependent.what == "order" and dependent.concerns(way)
        ) or "unordered_per_input" in case.data.get("flags", []):
            assert sorted(runner.lines(got)) == sorted(runner.lines(wanted)), topic
        elif way.lanes == (1,):
            assert runner.lines(got) == runner.lines(wanted), topic
        else:
            assert runner.same_per_key(got) == runner.same_per_key(wanted), topic
    for name, entries in case.data["stores"].items():
        assert runner.lines(found.stores[name]) == runner.lines(entries), name
    assert found.store_timestamps == case.data["store_timestamps"]
    assert found.versioned_lookups == case.data.get("versioned_lookups", {})


def without_input(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out which input caused a record: an epoch has several."""
    return [{name: part for name, part in record.items() if name != "i"} for record in records]


def test_what_is_listed_exists() -> None:
    places = {case.place for case in runner.cases()}
    assert set(DEPENDENT) <= places
    for found in DEPENDENT.values():
        assert set(found.when.split("+")) <= {"epochs", "batches", "lanes", "restarts"}
        assert found.what in ("order", "value")
        assert found.why
