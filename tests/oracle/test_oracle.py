"""The real Kafka Streams beside ours: it repeats the recorded results, and agrees with engine and interpreter.

Needs Java and Maven, and so is no part of the steps that need neither. `STOATFLOW_TEST_RANDOM_EXAMPLES=5000`
searches longer, with new cases each time; without it, the same cases run every time.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from conformance import runner
from conformance.kafka_streams import KafkaStreamsError, Oracle
from conformance.runner import Case
from oracle.beside import KNOWN, engine_does, same
from semantics import one_task_cases as random_cases
from semantics.interpreter import interpret
from semantics.moves import all_moves

# Failures are reported as drawn: each attempt to shrink one takes an engine and a Kafka Streams.
searching = settings(random_cases.searching(300), phases=(Phase.explicit, Phase.generate))
# Count windows exist only here.
MOVES = frozenset(all_moves()) - {"count_window"}


@pytest.mark.parametrize("case", runner.cases(), ids=lambda case: case.name)
def test_recorded_vectors_match_kafka_streams(case: Case, oracle: Oracle) -> None:
    found = oracle.replay(case.data)
    same(found, case.data, ordered="unordered_per_input" not in case.data.get("flags", ()))
    assert runner.lines([found["versioned_lookups"]]) == runner.lines([case.data.get("versioned_lookups", {})])
    assert found["internal_topics"] == case.data.get("internal_topics", found["internal_topics"])
    described = runner.HERE / "describe" / f"{case.topology_name}.txt"
    assert not described.exists() or found["describe"] == described.read_text("utf-8")


def all_three(case: Case, oracle: Oracle) -> None:
    """One input per commit and one lane: nothing may differ (docs/adr/0006), except known differences."""
    assume(not any(known(case) for known in KNOWN))
    nothing_differs(case, oracle)


def nothing_differs(case: Case, oracle: Oracle) -> None:
    """Interpreter, Kafka Streams and engine."""
    wanted = oracle.replay(case.data)
    same(case.data, wanted)
    engine_does(case, wanted)


@searching
@given(case=random_cases.cases(MOVES))
def test_kafka_streams_does_what_engine_and_interpreter_do(case: Case, oracle: Oracle) -> None:
    all_three(case, oracle)


# The draws above miss some moves, whatever their number: each one is made in a few cases of its own.
@pytest.mark.parametrize("move", sorted(MOVES))
@settings(searching, max_examples=max(8, searching.max_examples // 40))
@given(data=st.data())
def test_kafka_streams_does_each_operator_as_engine_and_interpreter_do(
    move: str, data: st.DataObject, oracle: Oracle
) -> None:
    all_three(data.draw(random_cases.cases(MOVES, must=move)), oracle)


def test_tables_joined_with_each_other_by_foreign_keys(oracle: Oracle) -> None:
    """Each join lifts the other's table to its stage: endlessly, if nothing stops it."""
    texts = {"key_serde": "string", "value_serde": "string"}
    steps = [
        {"id": "left", "op": "table", "topic": "in1", **texts, "materialized": {"store": "lefts", **texts}},
        {"id": "right", "op": "table", "topic": "in2", **texts, "materialized": {"store": "rights", **texts}},
    ]
    for made, own, other, out in (("there", "left", "right", "out1"), ("back", "right", "left", "out2")):
        join = {"op": "join", "from": own, "other": other, "joiner": "pair_text", "fk_fn": "text_fk"}
        steps += [
            {"id": made, **join, "materialized": texts},
            {"id": f"{made}-stream", "op": "to_stream", "from": made},
            {"id": f"{made}-to", "op": "to", "from": f"{made}-stream", "topic": out, **texts},
        ]
    dice = random.Random(7)  # noqa: S311  # no secret
    for _ in range(8):
        inputs = [
            {"topic": dice.choice(("in1", "in2")), "key": dice.choice("abc"), "timestamp": 10 * at}
            | {"value": dice.choice(("a", "b", "c", "d", None))}
            for at in range(40)
        ]
        topics = {topic: {"key": "string", "value": "string"} for topic in ("in1", "in2", "out1", "out2")}
        data = {"name": "mutual", "area": "random", "config": {"cache_max_bytes": 0, "emit_interval_ms": 0}}
        case = Case(Path("mutual.json"), data | {"topics": topics, "topology": steps, "inputs": inputs})
        made = interpret(steps, inputs)
        assert made.outputs["out1"]
        assert made.outputs["out2"]
        nothing_differs(Case(case.path, case.data | random_cases.outcome(made)), oracle)


def test_an_error_of_kafka_streams_is_reported_and_the_next_case_runs(oracle: Oracle) -> None:
    case = next(case for case in runner.cases() if case.name == "word_count/hand")
    wrong = [step | {"fn": "no_such_function"} if "fn" in step else step for step in case.data["topology"]]
    with pytest.raises(KafkaStreamsError, match="no_such_function"):
        oracle.replay(case.data | {"topology": wrong})
    same(oracle.replay(case.data), case.data)
