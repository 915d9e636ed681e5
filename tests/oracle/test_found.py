"""Small topologies in which the engine once differed from Kafka Streams, found by reading both."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from conformance.kafka_streams import Oracle
from conformance.runner import Case
from oracle.beside import engine_does

Json = dict[str, Any]
TEXT = {"key_serde": "string", "value_serde": "string"}
TOPICS = {name: {"key": "string", "value": "string"} for name in ("in", "table", "out")}
OUT: Json = {"id": "out", "op": "to", "topic": "out", **TEXT}


def outputs(
    oracle: Oracle,
    steps: list[Json],
    inputs: list[tuple[str, str, str | None, int]],
    cache: int = 0,
    optimization: str = "none",
) -> list[str]:
    """Run it on both, which must agree; return the output values."""
    names = ("topic", "key", "value", "timestamp")
    config = {"cache_max_bytes": cache, "emit_interval_ms": 0, "optimization": optimization}
    data: Json = {"name": "found", "area": "found", "config": config, "topics": TOPICS, "topology": steps}
    data["inputs"] = [dict(zip(names, given, strict=True)) for given in inputs]
    wanted = oracle.replay(data)
    engine_does(Case(Path("found.json"), data), wanted)
    return [record["value"] for record in wanted["outputs"]["out"]]


def test_a_transformer_sees_the_version_of_the_record(oracle: Oracle) -> None:
    versions = {"store": "versions", **TEXT, "versioned_history_ms": 100}
    steps: list[Json] = [
        {"id": "stream", "op": "stream", "topics": ["in"], **TEXT},
        {"id": "table", "op": "table", "topic": "table", **TEXT, "materialized": versions},
        {"id": "upper", "op": "transform_values", "from": "table", "fn": "upper"},
        {"id": "joined", "op": "left_join", "from": "stream", "other": "upper", "joiner": "pair_text", **TEXT}
        | {"other_value_serde": "string"},
        OUT | {"from": "joined"},
    ]
    given = [("table", "a", "v", 10), ("table", "a", "w", 20), ("in", "a", "o", 15), ("in", "a", "p", 25)]
    assert outputs(oracle, steps, given) == ["o/V", "p/W"]


def test_the_bytes_of_equal_old_values_count_once(oracle: Oracle) -> None:
    kept = {"store": "kept", **TEXT}
    buffer = {"max_bytes": 95, "when_full": "emit_early"}
    steps: list[Json] = [
        {"id": "table", "op": "table", "topic": "in", **TEXT, "materialized": kept},
        {"id": "held", "op": "suppress", "from": "table", "until": "time_limit", "time_limit_ms": 5, "buffer": buffer},
        {"id": "updates", "op": "to_stream", "from": "held"},
        OUT | {"from": "updates"},
    ]
    x, y = "x" * 10, "y" * 10
    given = [("in", "a", x, 0), ("in", "b", y, 10), ("in", "a", x, 11), ("in", "a", x, 12)]
    assert outputs(oracle, steps, given) == [x]


def test_a_join_by_foreign_key_without_a_store_is_not_cached(oracle: Oracle) -> None:
    steps: list[Json] = [
        {"id": "left", "op": "table", "topic": "in", **TEXT, "materialized": {"store": "lefts", **TEXT}},
        {"id": "right", "op": "table", "topic": "table", **TEXT, "materialized": {"store": "rights", **TEXT}},
        {"id": "joined", "op": "join", "from": "left", "other": "right", "joiner": "pair_text", "fk_fn": "text_fk"}
        | {"name": "named", "materialized": TEXT},
        {"id": "updates", "op": "to_stream", "from": "joined"},
        OUT | {"from": "updates"},
    ]
    given = [("in", "o", "p", 0), ("in", "o", None, 1), ("table", "p", "q", 2), ("in", "o", "p", 3)]
    assert outputs(oracle, steps, given, cache=1_000_000) == [None, "p/q"]


def _self_join(before: int, after: int, grace: int) -> list[Json]:
    window = {"before_ms": before, "after_ms": after, "grace_ms": grace}
    join = {"id": "pairs", "op": "join", "from": "stream", "other": "stream", "joiner": "pair_text", "window": window}
    stream: Json = {"id": "stream", "op": "stream", "topics": ["in"], **TEXT}
    return [stream, join | TEXT | {"other_value_serde": "string"}, OUT | {"from": "pairs"}]


@pytest.mark.parametrize("optimization", ["single.store.self.join", "all"])
@pytest.mark.parametrize("window", [(4, 4, 20), (2, 6, 0), (0, 5, 30)])
def test_a_stream_joined_with_itself_has_one_store(
    oracle: Oracle, optimization: str, window: tuple[int, int, int]
) -> None:
    chance = random.Random(sum(window))  # noqa: S311  # inputs of a test
    time, given = 1_000, []
    for number in range(120):
        time += chance.randrange(4)
        late = chance.choice([1, 2, 3, 4, 5, 11, 12, 60]) if chance.random() < 0.3 else 0
        value = None if chance.random() < 0.1 else f"v{number}"
        given.append(("in", chance.choice("abc"), value, time - late))
    steps = _self_join(*window)
    found = outputs(oracle, steps, given, optimization=optimization)
    assert len(found) > 180
    assert found == outputs(oracle, steps, given)


def test_at_the_end_of_retention_a_record_joins_itself_with_one_store_too(oracle: Oracle) -> None:
    """Kafka Streams leaves this row out if the join has one store: see docs/adr/0007."""
    steps, late = _self_join(2, 6, 0), ("in", "a", "late", 1_000 - (2 + 6) + 1)
    given = [("in", "a", "on time", 1_000), late]
    with pytest.raises(AssertionError, match="out"):
        outputs(oracle, steps, given, optimization="single.store.self.join")
    assert "late/late" in outputs(oracle, steps, given)
    before_the_end = [given[0], (*late[:3], late[3] + 1)]
    assert "late/late" in outputs(oracle, steps, before_the_end, optimization="single.store.self.join")
