"""Lanes, batches, back ends and crashes change nothing for a key.

Every vector runs in all ways in memory, with a crash at every epoch; some of them on a disk, with a few crashes,
the same in every run. `STOATFLOW_TEST_RECOVERY=all` (`make test-recovery`) runs all in all ways. Vectors listed in
order_dependent.txt must differ where the list says so, and are run in the nearest way in which they must not.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from conformance import recovery, runner
from conformance.recovery import Way
from conformance.runner import Case

ALL = os.environ.get("STOATFLOW_TEST_RECOVERY") == "all"


DEPENDENT = recovery.dependent()
NOT_YET = {line.partition(":")[0] for line in recovery.listed("not_yet.txt")}
CASES = [case for case in runner.cases() if case.place not in NOT_YET]


def ways(case: Case) -> list[Way]:
    """The ways in which a vector is run."""
    dependent = DEPENDENT.get(case.place)
    every = [dependent.instead(way) if dependent else way for way in recovery.ways()]
    if ALL:
        return sorted(set(every), key=str)
    memory = [way for way in every if way.back_end == "in_memory"]
    # A restart on a disk takes time, so there are few crashes there, for some of the vectors.
    seldom = -(-len(case.data["inputs"]) // 3)
    disk = [replace(way, every=way.every and seldom) for way in every if way.back_end == "rocksDB"]
    number = recovery.number(case.name)
    sample = disk[number // 3 % len(disk) :][:1] if number % 3 == 0 else []
    return sorted({*memory, *sample}, key=str)


@pytest.mark.parametrize(("case", "way"), [pytest.param(c, w, id=f"{c.name}-{w}") for c in CASES for w in ways(c)])
def test_nothing_changes_for_a_key(case: Case, way: Way) -> None:
    expect(case, way, recovery.run(case, runner.build(case), way))


@pytest.mark.parametrize("place", sorted(DEPENDENT))
def test_listed_cases_still_differ(place: str) -> None:
    """The list may only shrink: a vector without differences in the ways of its entry needs no entry."""
    ways = [*(way for way in recovery.ways() if way.back_end == "in_memory"), recovery.TOGETHER]
    concerned = [way for way in ways if DEPENDENT[place].concerns(way)]
    runs = ((case, way) for case in CASES if case.place == place for way in concerned)
    assert any(differs(case, way) for case, way in runs), f"{place} differs nowhere: take it off order_dependent.txt"


def differs(case: Case, way: Way) -> bool:
    found = recovery.run(case, runner.build(case), way)
    try:
        expect(case, way, found, listed=False)
    except AssertionError:
        return True
    return False


def expect(case: Case, way: Way, found: runner.Found, *, listed: bool = True) -> None:
    """Compare; `listed` vectors may have another order where the list says so."""
    dependent = DEPENDENT.get(case.place) if listed else None
    for topic, records in case.data["outputs"].items():
        wanted, got = recovery.without_input(records), recovery.without_input(found.outputs[topic])
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


def test_listed_cases_exist() -> None:
    places = {case.place for case in runner.cases()}
    assert set(DEPENDENT) <= places
    for found in DEPENDENT.values():
        assert set(found.when.split("+")) <= {"epochs", "batches", "lanes", "restarts"}
        assert found.what in ("order", "value")
        assert found.why
