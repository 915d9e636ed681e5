"""Small topologies in which the engine once differed from Kafka Streams, found by reading both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.kafka_streams import Oracle
from conformance.runner import Case
from oracle.beside import engine_does

Json = dict[str, Any]
TEXT = {"key_serde": "string", "value_serde": "string"}
TOPICS = {name: {"key": "string", "value": "string"} for name in ("in", "table", "out")}
OUT: Json = {"id": "out", "op": "to", "topic": "out", **TEXT}


def outputs(
    oracle: Oracle, steps: list[Json], inputs: list[tuple[str, str, str | None, int]], cache: int = 0
) -> list[str]:
    """Run it on both, which must agree; return the output values."""
    names = ("topic", "key", "value", "timestamp")
    config = {"cache_max_bytes": cache, "emit_interval_ms": 0}
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
