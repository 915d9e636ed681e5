"""Small topologies that once differed from Kafka Streams, or from the interpreter.

Each is written out, with the expected result; the interpreter must agree.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance import runner
from conformance.runner import Case
from semantics.interpreter import interpret
from semantics.random_cases import outcome, topics_of
from semantics.sketch import Json

TEXT = {"key_serde": "string", "value_serde": "string"}
COUNT = {"key_serde": "string", "value_serde": "long"}


def came_out(steps: list[Json], inputs: list[Json]) -> dict[str, list[Any]]:
    """Run it in the interpreter and in the engine, which must agree; return the values by topic."""
    expected = outcome(interpret(steps, inputs))
    config = {"cache_max_bytes": 0, "emit_interval_ms": 0}
    data = {"name": "found/case", "area": "found", "config": config, "topics": topics_of(steps)}
    case = Case(Path("found.json"), data | {"topology": steps, "inputs": inputs, **expected})
    found = runner.run(case, runner.build(case))
    for topic, records in expected["outputs"].items():
        assert runner.lines(found.outputs[topic]) == runner.lines(records), topic
    assert found.stores == expected["stores"]
    return {topic: [record["value"] for record in records] for topic, records in found.outputs.items()}


def event(key: str, value: Any, timestamp: int = 20) -> Json:
    return {"topic": "in", "key": key, "value": value, "timestamp": timestamp}


def test_a_join_side_is_processed_before_a_sibling_group() -> None:
    """The table is joined with the old count: the count goes through a topic, the side of the join does not."""
    steps: list[Json] = [
        {"id": "table", "op": "table", "topic": "in", **TEXT},
        {"id": "grouped", "op": "group_by", "from": "table", "fn": "by_first_char", **TEXT, "name": "by-char"},
        {"id": "counted", "op": "count", "from": "grouped", "materialized": {"store": "counted", **COUNT}},
        {"id": "joined", "op": "join", "from": "counted", "other": "table", "joiner": "pair_text", "name": "with"},
        {"id": "updates", "op": "to_stream", "from": "joined"},
        {"id": "out", "op": "to", "from": "updates", "topic": "out", **TEXT},
    ]
    given = came_out(steps, [event("a", "a"), event("a", "ab")])
    # First there is no count yet; then the old count meets the new row, and after that the new count.
    assert given == {"out": ["1/a", "1/ab", "1/ab"]}


def test_a_materialized_join_keeps_a_store_without_a_name() -> None:
    """Without both sides nothing is written, so the store still has a row that a view would not have."""
    join: Json = {"op": "join", "other": "table", "joiner": "pair_text"}
    steps: list[Json] = [
        {"id": "table", "op": "table", "topic": "in", **TEXT},
        {"id": "self", **join, "from": "table", "name": "self", "materialized": TEXT},
        {"id": "again", **join, "from": "self", "name": "again"},
        {"id": "updates", "op": "to_stream", "from": "again"},
        {"id": "out", "op": "to", "from": "updates", "topic": "out", **TEXT},
    ]
    assert came_out(steps, [event("b", "a"), event("b", None)]) == {"out": ["a/a/a", "a/a/a", "a/a/a", None]}
    del steps[1]["materialized"]
    assert came_out(steps, [event("b", "a"), event("b", None)]) == {"out": ["a/a/a", "a/a/a", "a/a/a"]}


def test_suppress_on_top_of_suppress() -> None:
    """The second one goes by the timestamps of the first one's results: a window is emitted with the next one."""
    key = {"time_windowed": "string", "size_ms": 10}
    until: Json = {"op": "suppress", "until": "window_closes", "buffer": {"type": "unbounded"}}
    steps: list[Json] = [
        {"id": "stream", "op": "stream", "topics": ["in"], **TEXT},
        {"id": "grouped", "op": "group_by_key", "from": "stream", **TEXT, "name": "grouped"},
        {"id": "windowed", "op": "windowed_by", "from": "grouped",
         "window": {"type": "tumbling", "size_ms": 10, "grace_ms": 0}},
        {"id": "counted", "op": "count", "from": "windowed", "materialized": {"store": "counted", **COUNT}},
        {"id": "once", **until, "from": "counted", "name": "once"},
        {"id": "twice", **until, "from": "once", "name": "twice"},
        {"id": "updates", "op": "to_stream", "from": "twice"},
        {"id": "out", "op": "to", "from": "updates", "topic": "out", "key_serde": key, "value_serde": "long"},
    ]  # fmt: skip
    given = [event("a", "x", 1), event("a", "x", 2), event("a", "x", 12)]
    assert came_out(steps, given) == {"out": []}
    assert came_out(steps, [*given, event("a", "x", 25)]) == {"out": [2]}


def test_a_view_with_a_materialized_is_versioned_no_more() -> None:
    """Even without a store: an out-of-order record after it is an update like any other."""
    kept: Json = {"store": "versions", "versioned_history_ms": 1000, **TEXT}
    steps: list[Json] = [
        {"id": "table", "op": "table", "topic": "in", **TEXT, "materialized": kept},
        {"id": "plain", "op": "map_values", "from": "table", "fn": "null_if_x", "materialized": TEXT},
        {"id": "view", "op": "map_values", "from": "table", "fn": "null_if_x"},
    ]
    for of in ("plain", "view"):
        filtered: Json = {"id": f"{of}-long", "op": "filter", "from": of, "predicate": "len_gt_3"}
        joined: Json = {"id": f"{of}-joined", "op": "join", "from": of, "other": of, "joiner": "pair_text", "name": of}
        for made in (filtered, joined):
            steps += [
                made,
                {"id": f"{made['id']}-updates", "op": "to_stream", "from": made["id"]},
                {"id": f"{made['id']}-out", "op": "to", "from": f"{made['id']}-updates", "topic": made["id"], **TEXT},
            ]
    given = came_out(steps, [event("a", "now", 36), event("a", "then", 1), event("b", "x", 40)])
    assert given["view-joined"] == ["now/now", "now/now"]
    assert given["plain-joined"] == ["now/now", "now/now", "then/now", "now/then"]
    # A filter of a versioned table doesn't know the old value, and deletes it.
    assert given["view-long"] == [None, "then", None]
    assert given["plain-long"] == ["then"]


def test_a_filter_after_a_foreign_key_join_without_a_store_has_no_old_value() -> None:
    """With a store it leaves out needless tombstones; without one each row that doesn't match becomes one."""
    tables: list[Json] = [{"id": name, "op": "table", "topic": name, **TEXT} for name in ("in", "rates")]
    join: Json = {"op": "join", "from": "in", "other": "rates", "fk_fn": "key_prefix_fk", "joiner": "pair_text"}
    ends: list[Json] = []
    for name, kept in (("bare", TEXT), ("stored", {"store": "joined", **TEXT})):
        ends += [
            {"id": name, **join, "name": name, "materialized": kept},
            {"id": f"{name}-long", "op": "filter", "from": name, "predicate": "len_gt_3"},
            {"id": f"{name}-updates", "op": "to_stream", "from": f"{name}-long"},
            {"id": f"{name}-out", "op": "to", "from": f"{name}-updates", "topic": name, **TEXT},
        ]
    rate = {"topic": "rates", "key": "a", "value": "r", "timestamp": 1}
    given = came_out([*tables, *ends], [rate, event("a-1", ""), event("a-1", "zz"), event("a-1", None)])
    assert given == {"bare": [None, "zz/r", None], "stored": ["zz/r", None]}


def test_a_window_without_grace_is_emitted_by_the_record_that_closes_it() -> None:
    """If retention equals the time it is open, its store hides it when the next one begins, but it is emitted."""
    windowed: Json = {"time_windowed": "string", "size_ms": 10}
    steps: list[Json] = [
        {"id": "stream", "op": "stream", "topics": ["in"], **TEXT},
        {"id": "grouped", "op": "group_by_key", "from": "stream", **TEXT},
        {
            "id": "windows",
            "op": "windowed_by",
            "from": "grouped",
            "window": {"type": "tumbling", "size_ms": 10, "grace_ms": 0},
        },
        {"id": "closed", "op": "emit_strategy", "from": "windows", "strategy": "on_window_close"},
        {"id": "counted", "op": "count", "from": "closed", "materialized": {"store": "counted", **COUNT}},
        {"id": "updates", "op": "to_stream", "from": "counted"},
        {"id": "out", "op": "to", "from": "updates", "topic": "out", "key_serde": windowed, "value_serde": "long"},
    ]
    given = came_out(steps, [event("a", "v", time) for time in (1, 2, 12, 20, 45, 51)])
    # Windows further back are lost when time leaps, in Kafka Streams too: 10 to 20 is emitted, 20 to 30 is
    # not.
    assert given == {"out": [2, 1, 1]}
