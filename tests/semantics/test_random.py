"""Random topologies over random inputs: the engine's results equal the interpreter's.

All moves are drawn. `STOATFLOW_TEST_RANDOM_EXAMPLES=5000` searches longer, with new cases each time; without it,
the same 150 cases run every time.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from conformance import recovery, runner
from conformance.recovery import Way
from conformance.runner import Case
from semantics import random_cases
from semantics.moves import all_moves

searching = random_cases.searching(150)


def expect(case: Case, found: runner.Found) -> None:
    for topic, records in case.data["outputs"].items():
        assert runner.lines(found.outputs[topic]) == runner.lines(records), topic
    for name, entries in case.data["stores"].items():
        assert runner.lines(found.stores[name]) == runner.lines(entries), name
    for name, times in case.data["store_timestamps"].items():
        assert found.store_timestamps[name] == times, name


@searching
@given(random_cases.cases(all_moves()))
def test_the_engine_does_what_the_interpreter_does(case: Case) -> None:
    expect(case, runner.run(case, runner.build(case)))


# A crash resets the schedules of punctuations.
PER_KEY = frozenset(all_moves()) - {"punctuate"}


@searching
@given(random_cases.cases(PER_KEY))
def test_lanes_and_a_crash_change_nothing_for_a_key(case: Case) -> None:
    """Across keys no order is guaranteed with several lanes, so each key is compared alone."""
    assume(not joined_with_itself(case) and not closed_windows_meet(case))
    found = runner.run(case, runner.build(case), lanes=3, crash_after=len(case.data["inputs"]) // 2)
    same_for_each_key(case, found)


# Moves that wait for the commit, or read what another lane writes: decision 0006, points 6 and 9 to 11.
WAITS = frozenset({"join_by_foreign_key", "join_global_table", "global_table"})
# Eight records are processed concurrently, on three lanes.
TOGETHER = Way((3, 2), 8, "in_memory", every=2)


@searching
@given(random_cases.cases(PER_KEY - WAITS, lanes=True, together=TOGETHER.batch))
def test_lanes_that_work_at_the_same_time_change_nothing_for_a_key(case: Case) -> None:
    """With a crash in every second epoch, before or after its commit."""
    assume(not tells_the_time(case) and not meets_behind_an_exchange(case))
    same_for_each_key(case, recovery.run(case, runner.build(case), TOGETHER), inputs=False)


# Unlike Kafka Streams: as soon as they are over.
AT_ONCE = {
    "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": -1,
    "__emit.interval.ms.kstreams.windowed.aggregation__": -1,
}
# A global table is read in its current state when a lane reaches a record; a scan sees what other lanes
# have done so far.
RACES = frozenset({"join_global_table", "global_table", "punctuate"})


@searching
@given(random_cases.cases(frozenset(all_moves()) - RACES), st.sampled_from([2, 3, 8, 16, 64]))
def test_any_number_of_lanes_gives_the_same_results(case: Case, lanes: int) -> None:
    """All inputs in one epoch: one lane, and many that work concurrently."""
    assume(not tells_the_time(case))
    few, many = (
        recovery.run(case, runner.build(case), Way((n,), 1024, "in_memory", every=0), AT_ONCE) for n in (1, lanes)
    )
    for topic, records in few.outputs.items():
        assert runner.same_per_key(many.outputs[topic]) == runner.same_per_key(records), topic
    assert {name: runner.lines(rows) for name, rows in many.stores.items()} == {
        name: runner.lines(rows) for name, rows in few.stores.items()
    }
    assert many.store_timestamps == few.store_timestamps


def same_for_each_key(case: Case, found: runner.Found, *, inputs: bool = True) -> None:
    for topic, records in case.data["outputs"].items():
        wanted, got = records, found.outputs[topic]
        if not inputs:
            wanted, got = recovery.without_input(wanted), recovery.without_input(got)
        assert runner.same_per_key(got) == runner.same_per_key(wanted), topic
    for name, entries in case.data["stores"].items():
        assert runner.lines(found.stores[name]) == runner.lines(entries), name


# A cache leaves out updates of tables, so nothing may depend on the updates themselves, or on their order.
OF_UPDATES = frozenset(
    {"to_stream", "aggregate_table", "suppress_until_close", "suppress_for_a_while", "punctuate", "on_window_close"}
)
CACHED = {"statestore.cache.max.bytes": 1_000_000}


@searching
@given(random_cases.cases(frozenset(all_moves()) - OF_UPDATES))
def test_a_cache_changes_no_table(case: Case) -> None:
    """One result per key and commit instead of all: final stores, and the final values of outputs, are the same."""
    assume(not joined_with_itself(case) and not tells_the_time(case) and not meets_behind_an_exchange(case))
    found = recovery.run(case, runner.build(case), Way((1,), 5, "in_memory", every=0), CACHED)
    for topic, records in case.data["outputs"].items():
        assert folded(found.outputs[topic]) == folded(records), topic
    for name, entries in case.data["stores"].items():
        assert runner.lines(found.stores[name]) == runner.lines(entries), name


def tells_the_time(case: Case) -> bool:
    """Within an epoch, `stream_time_ms` is that of the batch (decision 0006, point 5)."""
    return any(step.get("processor") == "stream_time" for step in case.steps())


MOVES_KEYS = frozenset({"map", "flat_map", "select_key", "process", "group_by", "repartition"})


def meets_behind_an_exchange(case: Case) -> bool:
    """Within an epoch, a record sent to another lane may meet newer values (decision 0006, point 8)."""
    moved: set[str] = set()
    for step in case.steps():
        behind = {step.get("from"), step.get("other")} & moved
        if "other" in step and behind:
            return True
        if behind or step["op"] in MOVES_KEYS:
            moved |= {step["id"], *(branch["id"] for branch in step.get("branches", []))}
            moved |= {step["default"]["id"]} if "default" in step else set()
    return False


NEW_KEYS = {"group_by", "select_key", "map", "flat_map", "process"}
"""Operations whose results may have other keys."""


def closed_windows_meet(case: Case) -> bool:
    """Windows of several keys that one record closes meet at a new key: decision 0006, point 7."""
    closing: set[str] = set()
    for step in case.steps():
        is_behind = not closing.isdisjoint((step.get("from"), step.get("other")))
        if is_behind and step["op"] in NEW_KEYS:
            return True
        if is_behind or step.get("until") == "window_closes" or step["op"] == "emit_strategy":
            closing.add(step["id"])
            closing.update(branch["id"] for branch in step.get("branches", []))
            closing.update([step["default"]["id"]] if "default" in step else [])
    return False


def joined_with_itself(case: Case) -> bool:
    """If both sides come from one topic, its last deletion meets no row, and emits nothing, as in Kafka Streams."""
    topics: dict[str, set[str]] = {}
    for step in case.steps():
        sides = [topics.get(step.get(side, ""), set()) for side in ("from", "other")]
        if step["op"].endswith("join") and sides[0] & sides[1]:
            return True
        made = {*step.get("topics", []), *([step["topic"]] if "topic" in step else []), *sides[0], *sides[1]}
        for id_ in [step["id"], *(branch["id"] for branch in step.get("branches", []))]:
            topics[id_] = made
        topics |= {step["default"]["id"]: made} if "default" in step else {}
    return False


def folded(records: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The last value of each key, without tombstones."""
    return {
        key: lines[-1:]
        for key, lines in runner.same_per_key(
            [{name: record[name] for name in ("key", "window", "value") if name in record} for record in records]
        ).items()
        if '"value": null' not in lines[-1]
    }


# The draws above miss some moves, whatever their number: each one is made in a few cases of its own.
@pytest.mark.parametrize("move", sorted(all_moves()))
@settings(searching, max_examples=max(3, searching.max_examples // 50))
@given(data=st.data())
def test_each_operator_does_what_the_interpreter_does(move: str, data: st.DataObject) -> None:
    case = data.draw(random_cases.cases(all_moves(), must=move))
    assert move in case.data["moves"]
    expect(case, runner.run(case, runner.build(case)))


@searching
@given(random_cases.cases(all_moves()))
def test_every_operator_can_be_drawn_and_interpreted(case: Case) -> None:
    """The interpreter accepts everything that the strategies generate, and never invents results."""
    events = case.data["inputs"]
    for records in case.data["outputs"].values():
        at = [record["i"] for record in records]
        assert at == sorted(at)
        assert all(0 <= i < len(events) for i in at)
    known = {step["materialized"]["store"] for step in case.steps() if "store" in step.get("materialized", {})}
    known |= {step["store"] for step in case.steps("state_store")}
    assert set(case.data["stores"]) == known
