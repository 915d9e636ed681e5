"""Random topologies over random inputs: the engine gives what the interpreter gives.

All moves are drawn. `STOATFLOW_RANDOM_EXAMPLES=5000` searches longer, with new cases each time; without it,
the same 150 cases run every time.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings

from conformance import runner
from conformance.runner import Case
from semantics import random_cases
from semantics.moves import all_moves

EXAMPLES = os.environ.get("STOATFLOW_RANDOM_EXAMPLES")
searching = settings(
    max_examples=int(EXAMPLES or 150),
    derandomize=EXAMPLES is None,
    deadline=None,
    print_blob=EXAMPLES is not None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


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


# What follows the time of all keys comes at the barrier where there are several lanes, from records that
# nobody can name any more: it has no headers of theirs, and another number of updates in between (decision
# 0006, points 3 and 4). Schedules begin anew after a crash.
BY_TIME = frozenset(
    {"on_window_close", "suppress_until_close", "suppress_for_a_while", "join_streams_outer", "punctuate"}
)
PER_KEY = frozenset(all_moves()) - BY_TIME


@searching
@given(random_cases.cases(PER_KEY, lanes=True))
def test_lanes_and_a_crash_change_nothing_for_a_key(case: Case) -> None:
    """Across keys no order is promised with several lanes, so each key is looked at alone."""
    found = runner.run(case, runner.build(case), lanes=3, crash_after=len(case.data["inputs"]) // 2)
    for topic, records in case.data["outputs"].items():
        assert runner.same_per_key(found.outputs[topic]) == runner.same_per_key(records), topic
    for name, entries in case.data["stores"].items():
        assert runner.lines(found.stores[name]) == runner.lines(entries), name


@searching
@given(random_cases.cases(all_moves()))
def test_every_operator_can_be_drawn_and_interpreted(case: Case) -> None:
    """The interpreter takes all that the strategies make up, and never tells of what did not happen."""
    events = case.data["inputs"]
    for records in case.data["outputs"].values():
        at = [record["i"] for record in records]
        assert at == sorted(at)
        assert all(0 <= i < len(events) for i in at)
    known = {step["materialized"]["store"] for step in case.steps() if "store" in step.get("materialized", {})}
    known |= {step["store"] for step in case.steps("state_store")}
    assert set(case.data["stores"]) == known
