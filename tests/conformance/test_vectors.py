"""Kafka Streams 4.1.2 gave these results: outputs in order with timestamps and headers, stores, texts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance import recovery, results, runner
from conformance.functions import NATIVE
from conformance.runner import Case

ALL = runner.cases()
_LISTED = [line for line in (runner.HERE / "not_yet.txt").read_text("utf-8").splitlines() if not line.startswith("#")]
NOT_YET = {line.partition(":")[0] for line in _LISTED}
DEPENDENT = recovery.dependent()
COVERED = [case for case in ALL if case.place not in NOT_YET]
LEFT = [case for case in ALL if case.place in NOT_YET]
HAND = [case for case in COVERED if case.name.endswith("/hand")]
WITH_NATIVE = [
    case for case in COVERED if any(v in NATIVE for s in case.steps() for v in s.values() if isinstance(v, str))
]
DESCRIBED = [case for case in HAND if (runner.HERE / "describe" / f"{case.topology_name}.txt").exists()]

# State that a crash loses: the processor counts firings in an attribute, and the wall clock's grid restarts.
KEPT_IN_MEMORY = {"processor/proc_punct_trace"}
# With several lanes, results on close are emitted at the barrier, whatever came between: there is no order of all
# keys for a limit of records, or for a pass by the wall clock. And a window that closes there is emitted even if one
# lane's store has expired it before (as Kafka Streams does).
ORDER_OF_ALL_KEYS = {
    "join_ss/ss_left_throttled",
    "suppress/suppress_max_records",
    "window/on_window_close_default_retention",
    "window/on_window_close_throttled",
}

each = pytest.mark.parametrize("case", COVERED, ids=lambda case: case.name)


@each
def test_like_kafka_streams(case: Case) -> None:
    with results.of(case.name):
        expect(case, runner.run(case, runner.build(case)))


@pytest.mark.parametrize("case", WITH_NATIVE, ids=lambda case: case.name)
def test_like_kafka_streams_with_native_expressions(case: Case) -> None:
    expect(case, runner.run(case, runner.build(case, native=True)))


@pytest.mark.parametrize("case", [c for c in HAND if c.place not in KEPT_IN_MEMORY], ids=lambda case: case.name)
def test_a_crash_in_the_middle_changes_nothing(case: Case) -> None:
    expect(case, runner.run(case, runner.build(case), crash_after=len(case.data["inputs"]) // 2))


SELF_JOINS = [case for case in COVERED if "ss_self_join" in case.name]


@pytest.mark.parametrize("case", SELF_JOINS, ids=lambda case: case.name)
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("crash", [False, True])
def test_a_self_join_with_one_store_is_like_that_with_two(case: Case, lanes: int, crash: bool) -> None:
    data = case.data | {"config": case.data["config"] | {"optimization": "single.store.self.join"}}
    one = replace(case, data=data | {"stores": {}})
    half = len(case.data["inputs"]) // 2
    found = runner.run(one, runner.build(one), lanes=lanes, crash_after=half if crash else None)
    for topic, records in case.data["outputs"].items():
        assert runner.same_per_key(found.outputs[topic]) == runner.same_per_key(records)


def test_there_are_self_joins() -> None:
    assert len(SELF_JOINS) > 1


@pytest.mark.parametrize("case", [c for c in HAND if c.place not in ORDER_OF_ALL_KEYS], ids=lambda case: case.name)
def test_lanes_change_nothing_for_a_key(case: Case) -> None:
    """Eight inputs share an epoch, so that lanes work concurrently, unless the result depends on that."""
    way, dependent = recovery.TOGETHER, DEPENDENT.get(case.place)
    if dependent and dependent.concerns(way):
        way = replace(way, batch=1)
    found = recovery.run(case, runner.build(case), way)
    for topic, records in case.data["outputs"].items():
        wanted, got = recovery.without_input(records), recovery.without_input(found.outputs[topic])
        assert runner.same_per_key(got) == runner.same_per_key(wanted), topic
    assert found.store_timestamps == case.data["store_timestamps"]
    for name, entries in case.data["stores"].items():
        assert runner.lines(found.stores[name]) == runner.lines(entries), name


@pytest.mark.parametrize("case", DESCRIBED, ids=lambda case: case.topology_name)
def test_describe_is_kafka_streams_text(case: Case) -> None:
    expected = (runner.HERE / "describe" / f"{case.topology_name}.txt").read_text("utf-8")
    assert runner.build(case).describe() == expected


@pytest.mark.parametrize("topology", sorted(NOT_YET))
def test_listed_cases_still_fail(topology: str) -> None:
    """The list may only shrink: a topology leaves it when its vectors pass."""
    cases = [case for case in LEFT if case.place == topology]
    assert cases, f"{topology} is no topology of a vector: take it off not_yet.txt"
    for case in cases:
        found = runner.run(case, runner.build(case))
        with pytest.raises(AssertionError), results.of(case.name):
            expect(case, found)


@pytest.mark.parametrize("case", LEFT, ids=lambda case: case.name)
def test_listed_cases_give_the_intended_results(case: Case) -> None:
    """After repartition() the metadata is that of the input record; everything else is as recorded."""
    assert case.place == "processor/proc_record_meta", "say here what is intended instead"
    inputs = case.data["inputs"]
    offsets = [sum(event["topic"] == inputs[at]["topic"] for event in inputs[:at]) for at in range(len(inputs))]
    after = [
        record | {"value": f"{inputs[record['i']]['topic']}:0:{offsets[record['i']]}"}
        for record in case.data["outputs"]["after"]
    ]
    intended = case.data | {"outputs": case.data["outputs"] | {"after": after}}
    expect(replace(case, data=intended), runner.run(case, runner.build(case)))


def test_committed_results_match_this_run() -> None:
    """The last of the tests that run vectors: docs/reference/parity.md counts the runs that were the same here."""
    results.compare(case.name for case in ALL)


def test_there_are_vectors() -> None:
    assert len(ALL) >= 344
    assert {case.data["area"] for case in COVERED} >= {"aggregate", "merge_branch", "stateless", "tombstones"}
    assert DESCRIBED


def expect(case: Case, found: runner.Found) -> None:
    unordered = "unordered_per_input" in case.data.get("flags", [])
    for topic, records in case.data["outputs"].items():
        wanted, got = runner.lines(records), runner.lines(found.outputs[topic])
        if unordered:
            wanted, got = sorted(wanted), sorted(got)
        assert got == wanted, topic
    assert set(found.outputs) == set(case.data["outputs"])
    for name, entries in case.data["stores"].items():
        assert runner.lines(found.stores[name]) == runner.lines(entries), name
    assert found.store_timestamps == case.data["store_timestamps"]
    assert found.versioned_lookups == case.data.get("versioned_lookups", {})
