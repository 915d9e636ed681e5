"""One answer: every vector with 2, 4, 16 and 64 lanes gives what it gives with one.

All inputs between two steps of the clock share an epoch, so that lanes work at the same time. Outputs are compared key
by key, in their order, with timestamps and headers; stores as a whole. What docs/adr/0006 lets differ is named here,
and must differ.
"""

from __future__ import annotations

import pytest

from conformance import recovery, runner
from conformance.recovery import Way
from conformance.runner import Case, Found

LANES = (2, 4, 16, 64)
DEPENDENT = {
    # Kafka Streams' passes, which the vectors ask for, look at all keys of a task and at the clock (points 1 and 2).
    "join_ss/ss_left",
    "join_ss/ss_left_throttled",
    "join_ss/ss_outer",
    "join_ss/ss_outer_equal_times",
    "join_ss/ss_outer_grace",
    "join_ss/ss_outer_null_keys",
    "window/on_window_close_throttled",
    # A buffer for each lane (3), keys and times of other lanes (4 and 5).
    "suppress/suppress_max_records",
    # What a foreign key's lane answers is what the right table has by then (9).
    "join_fk/fk_inner",
    "processor/proc_range_dump",
    "processor/proc_stream_time",
    "processor/proc_window_store",
}
CASES = runner.cases()


def run(case: Case, lanes: int) -> Found:
    return recovery.run(case, runner.build(case), Way((lanes,), 1024, "in_memory", every=0))


def shown(found: Found) -> tuple[object, ...]:
    outputs = {topic: runner.same_per_key(recovery.without_input(records)) for topic, records in found.outputs.items()}
    stores = {name: runner.lines(rows) for name, rows in found.stores.items()}
    return outputs, stores, found.store_timestamps, found.versioned_lookups


@pytest.mark.parametrize("case", [c for c in CASES if c.place not in DEPENDENT], ids=lambda case: case.name)
def test_any_number_of_lanes_gives_the_same(case: Case) -> None:
    one = shown(run(case, 1))
    for lanes in LANES:
        assert shown(run(case, lanes)) == one, f"{lanes} lanes"


@pytest.mark.parametrize("place", sorted(DEPENDENT))
def test_what_depends_on_lanes_is_seen(place: str) -> None:
    """The list may only shrink."""
    cases = [case for case in CASES if case.place == place]
    assert any(shown(run(case, lanes)) != shown(run(case, 1)) for case in cases for lanes in LANES)
