"""Determinism: every vector has the same results with 2, 4, 16 and 64 lanes as with one lane.

All inputs between two steps of the clock share an epoch, so that lanes work concurrently. Outputs are compared key
by key, in order, with timestamps and headers; stores as a whole. Differences that docs/adr/0006 permits are listed
here, and must occur.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from conformance import recovery, runner
from conformance.recovery import Way
from conformance.runner import Case, Found

LANES = (2, 4, 16, 64)
IN_PASSES = {
    # These vectors use Kafka Streams' passes over all keys of a task (points 1 and 2).
    "join_ss/ss_left",
    "join_ss/ss_left_throttled",
    "join_ss/ss_outer",
    "join_ss/ss_outer_equal_times",
    "join_ss/ss_outer_grace",
    "join_ss/ss_outer_null_keys",
    "window/on_window_close_throttled",
}
AT_ONCE = dict.fromkeys(runner.EMIT_INTERVALS, -1)
DEPENDENT = {
    # Keys and writes of other lanes (4).
    "processor/proc_range_dump",
    "processor/proc_window_store",
}
CASES = runner.cases()
NO_KEY = "[null, null]"
EQUAL = [case for case in CASES if case.place not in DEPENDENT]


def run(case: Case, lanes: int, settings: Mapping[str, object] | None = None) -> Found:
    return recovery.run(case, runner.build(case), Way((lanes,), 1024, "in_memory", every=0), settings)


def shown(found: Found) -> tuple[Any, ...]:
    outputs = {topic: runner.same_per_key(recovery.without_input(records)) for topic, records in found.outputs.items()}
    stores = {name: runner.lines(rows) for name, rows in found.stores.items()}
    return outputs, stores, found.store_timestamps, found.versioned_lookups


def unordered_without_key(found: tuple[Any, ...]) -> tuple[object, ...]:
    outputs, *rest = found
    outputs = {
        topic: {key: sorted(rows) if key == NO_KEY else rows for key, rows in keys.items()}
        for topic, keys in outputs.items()
    }
    return outputs, *rest


@pytest.mark.parametrize("case", EQUAL, ids=lambda case: case.name)
def test_any_number_of_lanes_gives_the_same_results(case: Case) -> None:
    one = shown(run(case, 1))
    for lanes in LANES:
        assert shown(run(case, lanes)) == one, f"{lanes} lanes"


@pytest.mark.parametrize("case", [case for case in CASES if case.place in IN_PASSES], ids=lambda case: case.name)
def test_without_passes_any_number_of_lanes_gives_the_same_results(case: Case) -> None:
    """The default: results are emitted immediately. Records without a key have no order between the two sides."""
    one = unordered_without_key(shown(run(case, 1, AT_ONCE)))
    for lanes in LANES:
        assert unordered_without_key(shown(run(case, lanes, AT_ONCE))) == one, f"{lanes} lanes"


@pytest.mark.parametrize("place", sorted(DEPENDENT))
def test_a_dependence_on_lanes_is_detected(place: str) -> None:
    """The list may only shrink."""
    cases = [case for case in CASES if case.place == place]
    assert any(shown(run(case, lanes)) != shown(run(case, 1)) for case in cases for lanes in LANES)
