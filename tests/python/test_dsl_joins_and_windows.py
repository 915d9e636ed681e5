"""Windows, joins, grouped tables, splits and suppress become the plan; what does not fit is refused with the line."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.plan import encode

NONE = "0s"


def nodes(builder: sf.StreamsBuilder) -> list[dict[str, Any]]:
    """The calls as they are sent to the engine, before any check there."""
    found: list[dict[str, Any]] = json.loads(encode(builder._plan.snapshot()).json)["nodes"]
    return [{name: value for name, value in node.items() if name != "line"} for node in found]


def add(agg: Any, value: Any) -> Any:
    return agg + value


def fold(key: Any, value: Any, agg: Any) -> Any:
    return agg


def merge(key: Any, one: Any, two: Any) -> Any:
    return one


def pair(left: Any, right: Any) -> Any:
    return (left, right)


def test_windows_of_all_kinds() -> None:
    builder = sf.StreamsBuilder()
    grouped = builder.stream("a", key=str, value=int).group_by_key()
    for windows in (
        sf.TimeWindows("10ms", grace="5ms"),
        sf.TimeWindows.hopping("10ms", "2ms", grace=NONE),
        sf.TimeWindows.of_size_with_no_grace("10ms").advance_by("5ms"),
        sf.SlidingWindows("10ms", grace=timedelta(milliseconds=7)),
        sf.UnlimitedWindows(datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc)),
        sf.CountWindows(3),
    ):
        grouped.windowed_by(windows).count()
    grouped.windowed_by(sf.SessionWindows("10ms", grace="1s")).aggregate(lambda: 0, fold, merge, store="s")
    found = [node["window"] for node in nodes(builder) if node["op"] == "windowed_by"]
    assert found == [
        {"type": "tumbling", "size_ms": 10, "grace_ms": 5},
        {"type": "hopping", "size_ms": 10, "advance_ms": 2, "grace_ms": 0},
        {"type": "hopping", "size_ms": 10, "advance_ms": 5, "grace_ms": 0},
        {"type": "sliding", "difference_ms": 10, "grace_ms": 7},
        {"type": "unlimited", "start_ms": 1000},
        {"type": "count", "records": 3},
        {"type": "session", "gap_ms": 10, "grace_ms": 1000},
    ]
    assert nodes(builder)[-1] == {
        "op": "aggregate",
        "from": 14,
        "initializer": {"udf": 0},
        "function": {"udf": 1},
        "merger": {"udf": 2},
        "materialized": {"store": "s"},
    }


def test_emit_strategy_and_suppress() -> None:
    builder = sf.StreamsBuilder()
    windowed = builder.stream("a", key=str, value=int).group_by_key().windowed_by(sf.TimeWindows("10ms", grace=NONE))
    windowed.emit_strategy(sf.EmitStrategy.on_window_close()).reduce(add, store="r")
    counts = windowed.count(store=sf.Materialized("c", retention="1d", caching=False, logging={"retention.ms": 5}))
    counts.suppress(sf.Suppressed.until_window_closes(sf.Buffer(max_bytes=9, when_full="shutdown")), name="final")
    counts.suppress(sf.Suppressed.until_time_limit("1s", sf.Buffer(max_records=2, logging=False), name="some"))
    counts.suppress(sf.Suppressed.until_barrier())
    assert [{k: v for k, v in node.items() if k != "from"} for node in nodes(builder)[3:]] == [
        {"op": "emit_strategy", "strategy": "on_window_close"},
        {"op": "reduce", "function": {"udf": 0}, "materialized": {"store": "r"}},
        {
            "op": "count",
            "materialized": {"store": "c", "cached": False, "retention_ms": 86_400_000, "topic": {"retention.ms": "5"}},
        },
        {
            "op": "suppress",
            "name": "final",
            "until": {"type": "window_closes", "grace_ms": -1},
            "max_bytes": 9,
            "when_full": "shutdown",
        },
        {
            "op": "suppress",
            "name": "some",
            "until": {"type": "time_limit", "limit_ms": 1000},
            "max_records": 2,
            "logged": False,
        },
        {"op": "suppress", "until": {"type": "barrier"}},
    ]


def test_joins_by_the_type_of_the_other_side() -> None:
    builder = sf.StreamsBuilder()
    left = builder.stream("l", key=str, value=str)
    right = builder.stream("r", key=str, value=int)
    table = builder.table("t", key=str, value=int, store="t")
    facts = builder.global_table("g", key=int, value=str, store="g")
    window = sf.JoinWindows(before="1s", after="2s", grace="3s")
    left.join(right, pair, window, joined=sf.StreamJoined(str, str, int, store_name="s", logging=False), name="ss")
    left.outer_join(right, pair, sf.JoinWindows("1s", grace=NONE))
    left.left_join(table, pair, joined=sf.Joined(str, str, int, name="st", grace="1m"))
    left.join(facts, lambda key, value: len(value), merge, with_key=True)
    table.outer_join(table, pair, store="tt")
    table.join(table, pair, foreign_key=str, store=sf.Materialized("fk"), table_joined=sf.TableJoined("named"))
    table.left_join(table, pair, foreign_key=lambda key, value: key, with_key=True)
    joins = nodes(builder)[4:]
    assert joins[0] == {
        "op": "join",
        "name": "ss",
        "from": 0,
        "other": 1,
        "function": {"udf": 0},
        "window": {"before_ms": 1000, "after_ms": 2000, "grace_ms": 3000},
        "key": "string",
        "value": "string",
        "other_value": "int64",
        "store": "s",
        "logged": False,
    }
    assert joins[1]["op"] == "outer_join"
    assert (joins[2]["op"], joins[2]["name"], joins[2]["grace_ms"]) == ("left_join", "st", 60_000)
    assert joins[3]["key_function"] == {"udf": 2}
    assert joins[3]["with_key"] is True
    assert joins[4] == {
        "op": "outer_join",
        "from": 2,
        "other": 2,
        "function": {"udf": 0},
        "materialized": {"store": "tt"},
    }
    assert (joins[5]["name"], joins[5]["foreign_key"]) == ("named", {"udf": 3})
    assert joins[6]["foreign_with_key"] is True
    assert "with_key" not in joins[6]


def test_splits_name_their_branches_as_kafka_streams_does() -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("a", key=str, value=int)
    taken: list[Any] = []
    made = (
        stream.split(name="p-")
        .branch(lambda key, value: value > 5)
        .branch(sf.value > 3, "large")
        .branch(sf.value > 2, sf.Branched("own", consumer=taken.append))
        .branch(sf.value > 1, sf.Branched(function=lambda s: s.map_values(str)))
        .default_branch()
    )
    assert list(made) == ["p-1", "p-large", "p-4", "p-0"]
    assert len(taken) == 1
    assert made["p-4"]._at == made["p-0"]._at - 1
    assert list(stream.split().branch(sf.value > 1).no_default_branch()) == ["1"]
    short = stream.split({"big": sf.value > 9, "odd": lambda key, value: value % 2 == 1}, default="rest")
    assert list(short) == ["big", "odd", "rest"]
    assert [node["op"] for node in nodes(builder)[1:8]] == [*["split"], *["branch"] * 4, "map_values", "branch"]


def test_grouped_tables_and_cogroups() -> None:
    builder = sf.StreamsBuilder()
    table = builder.table("t", key=str, value=int, store="t")
    grouped = table.group_by(lambda key, value: (value, key), key=int, value=str)
    grouped.count(store="c")
    grouped.reduce(add, lambda agg, value: agg, store="r")
    grouped.aggregate(lambda: 0, fold, fold, store="a", value=int)
    one, two = (builder.stream(topic, key=str, value=int).group_by_key() for topic in "xy")
    cogrouped = one.cogroup(fold).cogroup(two, merge)
    cogrouped.aggregate(lambda: 0, store="co", value=int)
    cogrouped.windowed_by(sf.SessionWindows("1s", grace=NONE)).aggregate(lambda: 0, merge, store="cs", value=int)
    found = nodes(builder)
    assert found[3]["subtractor"] == {"udf": 2}
    assert found[4]["subtractor"] == found[4]["function"]
    assert [node["op"] for node in found[9:]] == ["cogroup", "cogroup", "aggregate", "windowed_by", "aggregate"]
    assert (found[10]["from"], found[10]["other"]) == (9, 8)
    assert "function" not in found[11]
    assert "merger" in found[13]


def test_sources_and_sinks_with_functions() -> None:
    builder = sf.StreamsBuilder()
    builder.stream(re.compile("orders-.*"), key=str, value=str, reset=sf.OffsetReset.by_duration("1h"))
    stream = builder.stream("a", key=str, value=str, timestamp=lambda record, partition_time: 5)
    builder.stream("b", timestamp=sf.TimestampExtractors.WALLCLOCK)
    stream.repartition(name="again").to_table(store="tab")
    stream.to(lambda key, value, context: value, partitioner=lambda topic, key, value, partitions: [0])
    stream.deduplicate(lambda key, value: value, within="1h", store="seen")
    found = nodes(builder)
    assert found[0] == {
        "op": "stream",
        "pattern": "orders-.*",
        "key": "string",
        "value": "string",
        "reset": {"by_duration": 3_600_000},
    }
    assert found[1]["timestamp"] == {"udf": 0}
    assert found[2]["timestamp"] == "wallclock"
    assert (found[3]["name"], found[4]["op"]) == ("again", "to_table")
    assert found[5] == {"op": "to", "from": 1, "topic_function": {"udf": 1}, "partitioner": {"udf": 2}}
    assert (found[6]["within_ms"], found[6]["materialized"]) == (3_600_000, {"store": "seen"})


def test_windowed_keys_have_start_and_end() -> None:
    window = sf.Window(0, 1500)
    key = sf.Windowed("a", window)
    assert (key.key, key.window.end, window.end_time) == (
        "a",
        1500,
        datetime(1970, 1, 1, 0, 0, 1, 500_000, timezone.utc),
    )
    assert key == sf.Windowed("a", sf.Window(0, 1500))
    assert len({key, sf.Windowed("a", window)}) == 1
    assert window.overlap(sf.Window(1499, 1500))
    assert not window.overlap(sf.Window(1500, 1600))
    for serde in (sf.Serdes.time_windowed(str, "1500ms"), sf.Serdes.session_windowed(str)):
        assert serde.deserialize(serde.serialize(key)) == key
    assert sf.Serdes.time_windowed(str, "1s").serialize(key) == b"a" + bytes(8)
    assert sf.Serdes.session_windowed(str).serialize(key) == b"a" + (1500).to_bytes(8, "big") + bytes(8)
    with pytest.raises(sf.SerdeError, match="at least 16 bytes"):
        sf.Serdes.session_windowed(str).deserialize(b"short")


def refused(build: Any, *words: str) -> None:
    builder = sf.StreamsBuilder()
    with pytest.raises(sf.TopologyError) as caught:
        build(builder.stream("a", key=str, value=str), builder.table("t", key=str, value=str, store="t"))
    for word in ("test_dsl_joins_and_windows.py:", *words):
        assert word in str(caught.value), str(caught.value)


@pytest.mark.parametrize(
    ("build", "word"),
    [
        (lambda s, t: sf.TimeWindows(5, grace=NONE), "TimeWindows(size)"),
        (lambda s, t: sf.TimeWindows("5 parsecs", grace=NONE), "5 parsecs"),
        (lambda s, t: sf.TimeWindows("0ms", grace=NONE), "at least 1 ms"),
        (lambda s, t: sf.TimeWindows(timedelta(seconds=-1), grace=NONE), "negative"),
        (lambda s, t: sf.TimeWindows("-1s", grace=NONE), "'-1s' is negative"),
        (lambda s, t: sf.TimeWindows("1s", advance="2s", grace=NONE), "longer than the size"),
        (lambda s, t: sf.TimeWindows("1s"), "TimeWindows: grace= is missing"),
        (lambda s, t: sf.TimeWindows.tumbling("1s"), "TimeWindows.tumbling: grace= is missing"),
        (lambda s, t: sf.TimeWindows.hopping("2s", "1s"), "TimeWindows.hopping: grace= is missing"),
        (lambda s, t: sf.SlidingWindows("1s"), "SlidingWindows: grace= is missing"),
        (lambda s, t: sf.SessionWindows("1s"), "SessionWindows: grace= is missing"),
        (lambda s, t: sf.JoinWindows("1s"), 'add grace="1m"'),
        (lambda s, t: sf.SlidingWindows("1s", grace=timedelta(seconds=-1)), "SlidingWindows(grace=)"),
        (lambda s, t: sf.UnlimitedWindows(-1), "before 1970"),
        (lambda s, t: sf.CountWindows(0), "CountWindows"),
        (lambda s, t: sf.JoinWindows(before="1s", grace=NONE), "before= and after="),
        (lambda s, t: s.group_by_key().windowed_by("5m"), "needs windows, not str"),
        (lambda s, t: s.group_by_key().windowed_by(sf.CountWindows(1)).emit_strategy("close"), "EmitStrategy"),
        (lambda s, t: s.join(s, pair), "missing a required argument: 'window'"),
        (lambda s, t: s.join(s, pair, "5m"), "needs JoinWindows, not str"),
        (lambda s, t: s.join(t, pair, sf.JoinWindows("1s", grace=NONE)), "(table, joiner)"),
        (lambda s, t: s.join(t, lambda value: value), "calls its function with (left, right)"),
        (lambda s, t: s.outer_join(t, pair), "outer_join needs a KStream"),
        (lambda s, t: s.join("t", pair), "does not go with str"),
        (lambda s, t: s.join(t, sf.count()), "a function of (left, right) or an expression, not Aggregation"),
        (lambda s, t: s.join(t, pair, joined=sf.StreamJoined()), "with a table needs a Joined, not StreamJoined"),
        (lambda s, t: s.join(t, pair, joined=sf.Joined(name="a"), name="b"), "two names"),
        (lambda s, t: t.join(s, pair), "needs another table, not KStream"),
        (lambda s, t: t.join(t, pair, table_joined=sf.TableJoined("x")), "by foreign key"),
        (lambda s, t: t.suppress("1s"), "needs a Suppressed"),
        (lambda s, t: sf.Suppressed.until_window_closes(sf.Buffer(max_records=3)), "not give final ones"),
        (lambda s, t: sf.Buffer(max_records=-1), "max_records=-1"),
        (lambda s, t: sf.Buffer(when_full="wait"), "when_full='wait'"),
        (lambda s, t: s.split().branch(sf.value == "a", "x").branch(sf.value == "b", "x"), "a branch 'x' already"),
        (lambda s, t: s.process(sf.value), "Processor class"),
        (lambda s, t: s.process(lambda key: key), "without arguments"),
        (lambda s, t: s.deduplicate(within="0s"), "deduplicate(within=)"),
        (lambda s, t: sf.StreamsBuilder().stream("x", timestamp="event"), "timestamp='event'"),
        (lambda s, t: sf.StreamsBuilder().stream(re.compile("a", re.IGNORECASE)), "flags"),
        (lambda s, t: t.group_by(sf.value), "does not take an expression"),
        (lambda s, t: t.filter(sf.value == "a", store=sf.Materialized(type="lru")), "type='lru'"),
    ],
)
def test_invalid_arguments_are_refused(build: Any, word: str) -> None:
    refused(build, word)


def test_a_split_ends_once() -> None:
    split = sf.StreamsBuilder().stream("a").split()
    split.default_branch()
    with pytest.raises(sf.TopologyError, match="has ended"):
        split.branch(sf.value == "a")


def test_printed(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out.txt"
    sf.Printed.to_file(file, "label").writer("name")("k", 1)
    sf.Printed(file, format=lambda key, value: f"{key}!").writer("name")("k", 1)
    sf.Printed().writer("name")(None, "v")
    assert file.read_text("utf-8") == "[label]: k, 1\n[name]: k!\n"
    assert capsys.readouterr().out == "[name]: None, v\n"
