"""The real Kafka Streams beside ours: what was recorded is what it does, and it does what engine and interpreter do.

Needs Java and Maven, and so is no part of the steps that need neither. `STOATFLOW_TEST_RANDOM_EXAMPLES=5000` searches
longer, with new cases each time; without it, the same cases run every time.
"""

from __future__ import annotations

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from conformance import runner
from conformance.kafka_streams import KafkaStreamsError, Oracle
from conformance.runner import Case
from oracle.beside import KNOWN, engine_does, same
from semantics import random_cases
from semantics.moves import all_moves

# What fails is told as it was drawn: each try to make it smaller takes an engine and a Kafka Streams.
searching = settings(random_cases.searching(300), phases=(Phase.explicit, Phase.generate))
# Windows of so many records are ours alone.
MOVES = frozenset(all_moves()) - {"count_window"}


@pytest.mark.parametrize("case", runner.cases(), ids=lambda case: case.name)
def test_what_was_recorded_is_what_kafka_streams_does(case: Case, oracle: Oracle) -> None:
    found = oracle.replay(case.data)
    same(found, case.data, ordered="unordered_per_input" not in case.data.get("flags", ()))
    assert runner.lines([found["versioned_lookups"]]) == runner.lines([case.data.get("versioned_lookups", {})])
    assert found["internal_topics"] == case.data.get("internal_topics", found["internal_topics"])
    described = runner.HERE / "describe" / f"{case.topology_name}.txt"
    assert not described.exists() or found["describe"] == described.read_text("utf-8")


def all_three(case: Case, oracle: Oracle) -> None:
    """One input per commit and one lane: nothing may differ (docs/adr/0006), but what is known to."""
    assume(not any(known(case) for known in KNOWN))
    wanted = oracle.replay(case.data)
    same(case.data, wanted)
    engine_does(case, wanted)


@searching
@given(case=random_cases.cases(MOVES))
def test_kafka_streams_does_what_engine_and_interpreter_do(case: Case, oracle: Oracle) -> None:
    all_three(case, oracle)


# The draws above leave some moves out, whatever their number: each one is made in a few cases of its own.
@pytest.mark.parametrize("move", sorted(MOVES))
@settings(searching, max_examples=max(8, searching.max_examples // 40))
@given(data=st.data())
def test_kafka_streams_does_each_operator_as_engine_and_interpreter_do(
    move: str, data: st.DataObject, oracle: Oracle
) -> None:
    all_three(data.draw(random_cases.cases(MOVES, must=move)), oracle)


def test_an_error_of_kafka_streams_is_told_and_the_next_case_runs(oracle: Oracle) -> None:
    case = next(case for case in runner.cases() if case.name == "word_count/hand")
    wrong = [step | {"fn": "no_such_function"} if "fn" in step else step for step in case.data["topology"]]
    with pytest.raises(KafkaStreamsError, match="no_such_function"):
        oracle.replay(case.data | {"topology": wrong})
    same(oracle.replay(case.data), case.data)
