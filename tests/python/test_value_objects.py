"""Arguments besides functions: value objects of the wrong kind, duplicate names, at the user's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import stoatflow as sf
from stoatflow import Stores


def pair(left: str, right: str) -> str:
    return f"{left}{right}"


def fold(key: str, value: str, agg: str) -> str:
    return agg + value


Build = Callable[[Any, Any, Any], object]
WRONG_KIND: list[tuple[Build, str]] = [
    (lambda b, s, t: b.stream("a", consumed="x"), "stream(consumed=) needs a Consumed, not str"),
    (lambda b, s, t: b.table("a", consumed=sf.Produced()), "table(consumed=) needs a Consumed, not Produced"),
    (lambda b, s, t: b.global_table("a", consumed=5), "global_table(consumed=) needs a Consumed, not int"),
    (
        lambda b, s, t: b.add_global_store(Stores.key_value("g"), "a", Passes, consumed="x"),
        "add_global_store(consumed=) needs a Consumed",
    ),
    (lambda b, s, t: b.stream("a", consumed=sf.Consumed), "not the class Consumed itself"),
    (lambda b, s, t: b.stream(5), "stream needs topics, not 5"),
    (lambda b, s, t: b.stream(b"orders"), "stream needs topics, not b'orders'"),
    (lambda b, s, t: s.group_by_key(grouped="x"), "group_by_key(grouped=) needs a Grouped, not str"),
    (lambda b, s, t: s.group_by(sf.value, grouped="x"), "group_by(grouped=) needs a Grouped, not str"),
    (lambda b, s, t: t.group_by(lambda k, v: (k, v), grouped="x"), "group_by(grouped=) needs a Grouped, not str"),
    (lambda b, s, t: s.repartition(5), "repartition needs a Repartitioned, not int"),
    (lambda b, s, t: s.to("a", produced=str), "to(produced=) needs a Produced, not the class str itself"),
    (lambda b, s, t: s.print("label"), "print needs a Printed, not str"),
    (lambda b, s, t: s.split(lambda key, value: True), "split needs a Mapping, not function"),
    (lambda b, s, t: s.split().branch(sf.value == "a", 5), "branch needs a Branched, not int"),
    (lambda b, s, t: s.group_by_key().cogroup(fold).cogroup("x", fold), "cogroup needs a KGroupedStream, not str"),
    (lambda b, s, t: s.group_by_key().cogroup(fold).cogroup(None, fold), "cogroup needs a KGroupedStream"),
    (lambda b, s, t: s.group_by_key().cogroup(fold).cogroup(s, fold), "cogroup needs a KGroupedStream, not KStream"),
    (lambda b, s, t: s.join(t, pair, joined="x"), "join(joined=) with a table needs a Joined, not str"),
    (
        lambda b, s, t: s.join(s, pair, sf.JoinWindows("1s", grace="0s"), joined=sf.Joined()),
        "join(joined=) of two streams needs a StreamJoined, not Joined",
    ),
    (
        lambda b, s, t: t.join(t, pair, foreign_key=sf.value, table_joined="x"),
        "join(table_joined=) needs a TableJoined, not str",
    ),
    (lambda b, s, t: s.to_table(store=sf.Materialized("a", logging="no")), "Materialized(logging=) must be True"),
    (lambda b, s, t: sf.Topology().add_source("a", "b").add_sink("c", "d", 5), "parents are named, not 5"),
    (lambda b, s, t: sf.Suppressed.until_window_closes("x"), "until_window_closes needs a Buffer, not str"),
    (lambda b, s, t: sf.Suppressed.until_time_limit("1s", 5), "until_time_limit needs a Buffer, not int"),
]

BESIDE: list[tuple[Build, str]] = [
    (lambda b, s, t: s.group_by_key(grouped=sf.Grouped(), name="x"), "beside grouped="),
    (lambda b, s, t: t.group_by(lambda k, v: (k, v), grouped=sf.Grouped(), name="x"), "beside grouped="),
    (lambda b, s, t: s.repartition(sf.Repartitioned(), name="x"), "beside repartitioned="),
    (lambda b, s, t: s.to("a", produced=sf.Produced(), key=str), "beside produced="),
    (
        lambda b, s, t: t.suppress(sf.Suppressed.until_time_limit("1s", name="one"), name="two"),
        "suppress: two names are given, 'two' and 'one'",
    ),
]

GENERATORS: list[tuple[Build, str]] = [
    (lambda b, s, t: s.filter(yields), "has a yield"),
    (lambda b, s, t: s.foreach(yields), "has a yield"),
]


class Passes(sf.ContextualProcessor[Any, Any, Any, Any]):
    """Does nothing."""

    def process(self, record: Any) -> None: ...


def yields(key: str, value: str) -> Any:
    yield value


@pytest.mark.parametrize(("build", "words"), [*WRONG_KIND, *BESIDE, *GENERATORS])
def test_invalid_arguments_are_refused(build: Build, words: str) -> None:
    builder = sf.StreamsBuilder()
    stream, table = builder.stream("s", key=str, value=str), builder.table("t", key=str, value=str, store="t")
    with pytest.raises(sf.TopologyError) as caught:
        build(builder, stream, table)
    assert "test_value_objects.py:" in str(caught.value)
    assert words in str(caught.value)
    assert caught.value.next_step


def test_valid_value_objects_are_accepted() -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("s", consumed=sf.Consumed(str, str))
    stream.flat_map_values(lambda value: (each for each in value)).repartition(sf.Repartitioned(name="r"))
    stream.group_by_key(grouped=sf.Grouped(name="g")).cogroup(fold).cogroup(stream.group_by_key(), fold)
    table = builder.table("t", key=str, value=str, store="t")
    table.suppress(sf.Suppressed.until_time_limit("1s", name="one"))
    table.suppress(sf.Suppressed.until_time_limit("1s"), name="two")
    stream.print(None)
    assert builder.build().describe()


@pytest.mark.parametrize(
    "window", [sf.TimeWindows("1s", grace="0s"), sf.SessionWindows("1s", grace="0s"), sf.CountWindows(3)]
)
def test_windows_are_not_versioned(window: Any) -> None:
    builder = sf.StreamsBuilder()
    grouped = builder.stream("s", key=str, value=str).group_by_key()
    grouped.windowed_by(window).count(store=sf.Materialized("counts", history="1h"))
    with pytest.raises(sf.TopologyError, match="leave history out"):
        builder.build()


def test_deduplicate_is_not_versioned() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("s", key=str, value=str).deduplicate(within="1s", store=sf.Materialized("d", history="1h"))
    with pytest.raises(sf.TopologyError, match="leave history out"):
        builder.build()


@pytest.mark.parametrize(
    ("make", "plain"),
    [
        (lambda: sf.Joined[str, str, str](name="j"), sf.Joined(name="j")),
        (lambda: sf.StreamJoined[str, str, str](name="j"), sf.StreamJoined(name="j")),
        (lambda: sf.Consumed[str, str](str, str), sf.Consumed(str, str)),
        (lambda: sf.Produced[str, str](name="p"), sf.Produced(name="p")),
        (lambda: sf.Grouped[str, str](name="g"), sf.Grouped(name="g")),
        (lambda: sf.Repartitioned[str, str](name="r"), sf.Repartitioned(name="r")),
    ],
)
def test_value_objects_accept_types(make: Callable[[], object], plain: object) -> None:
    assert make() == plain
