"""Changelog rows between the engine and Spark: tasks, stream times, what is written; and what is rejected."""

from __future__ import annotations

import os
import struct
from typing import Any

import pytest
import twin_handover
import twin_vectors
from test_stream_parts import DIFFERS

import stoatflow as sf
from conformance import runner
from stoatflow._runtime import bridge
from stoatflow.spark.handover import rows, unsupported
from stoatflow.spark.handover.rows import NONE, Time
from stoatflow.spark.twin.parts import KEYS, ONE, PARTITIONS, cut
from stoatflow.spark.twin.routing import Reader
from stoatflow.spark.twin.running import pairs_of
from stoatflow.spark.twin.task import murmur2
from stoatflow.spark.twin.task_state import Change, Retention

EVERY = 1 if os.environ.get("STOATFLOW_TEST_TWIN") == "all" else 5
SAMPLE = [case for at, case in enumerate(runner.cases()) if at % EVERY == 0]
REFUSED = {
    *(f"join_fk/{name}" for name in ("fk_inner", "fk_left", "fk_self")), "versioned/versioned_fk",
    *(f"join_ss/{name}" for name in ("ss_left_rekeyed", "ss_rekeyed")),
    *(f"naming/{name}" for name in ("naming_defaults", "naming_fk_join")),
    *(f"suppress/suppress_{name}" for name in ("count_time_limit", "max_records", "time_limit", "zero_limit")),
    "suppress/suppress_then_regroup", "tombstones/to_table_unmaterialized",
    *(f"processor/proc_{name}" for name in ("flush_stream_time", "ttl_expire", "lookup_table_store")),
    "processor/proc_shift_timestamp", "stateless/through_topic",
}  # fmt: skip
"""Stores without names, by topology; and cases that are rejected for other reasons."""
TEXT = {"key": str, "value": str}


def test_a_row_goes_to_the_task_of_its_records() -> None:
    for key in (b"ann", b"bob", b"", b"x" * 40):
        for behind in (0, 8, 12, 16):
            row = key + b"\7" * behind
            assert rows.task_of(behind, PARTITIONS, 5)(row) == murmur2(key) % 5
            assert rows.task_of(behind, ONE, 1)(row) == 0
        by_key = Reader(0, KEYS, 7, False)
        assert rows.task_of(0, KEYS, 7)(key) == by_key.task(key, 0)


def test_rows_have_their_key() -> None:
    """As the engine writes them."""
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", **TEXT)
    grouped = stream.group_by_key()
    for name, windowed in {"w": windows(stream), "s": grouped.windowed_by(sf.SessionWindows("1m", grace="0s"))}.items():
        windowed.count(store=name).suppress(sf.Suppressed.until_window_closes(name=f"final-{name}"))
    grouped.count(store="c").suppress(sf.Suppressed.until_time_limit("1m", name="calm"))
    topology = builder.build()
    behind = unsupported.behind_keys(topology)
    assert set(behind) == {"w", "s", "c", "final-w-store", "final-s-store", "calm-store"}
    driver = bridge.Driver(topology.plan, list(pairs_of(None)), 1, 0)
    try:
        driver.pipe("in", 0, b"ann", b"x", 1_000, [])
        for store, size in behind.items():
            ((key, *_),) = driver.drain(f"twin-{store}-changelog")
            assert key is not None
            assert key[: len(key) - (size or 0)] == b"ann", store
    finally:
        driver.close()


def test_times_are_read_and_written_as_the_engine_does_it() -> None:
    for times in ([Time(5, -1, -1)], [Time(5, 3, 9)], [Time(5, -1, -1), NONE, Time(7, 2, 8)]):
        value, timestamp = rows.row_of(times)
        assert rows.times_of(value) == times
        assert timestamp == max(time.stream for time in times)
    assert rows.row_of([NONE]) == (struct.pack(">qq", -1, -1), 0)
    with pytest.raises(sf.IncompatibleStateError, match="holds no times"):
        rows.times_of(b"\2")


def clock(name: bytes, *times: Time) -> Change:
    value, timestamp = rows.row_of(times)
    return Change(rows.CLOCKS, name, value, timestamp, None)


def test_each_task_keeps_its_own_stream_time() -> None:
    given = [
        clock(b"w", Time(5, -1, -1), NONE, Time(7, 2, 8)),
        clock(b"application", Time(9, -1, -1)),
        clock(b"of another part", Time(1, 1, 1), Time(1, 1, 1)),
    ]
    of_tasks = {task: list(rows.clocks_of_task(given, task, frozenset({"w", "application"}), 3)) for task in range(3)}
    assert of_tasks[0] == [clock(b"w", Time(5, -1, -1)), clock(b"application", Time(9, -1, -1))]
    assert of_tasks[1] == [clock(b"application", Time(9, -1, -1))]
    assert list(rows.clocks_of_all(of_tasks, 3)) == given[:2]


def test_buffered_rows_are_handed_over_with_one_task() -> None:
    waits = Change(rows.CLOCKS, b"w\0\x80" + b"k", b"\0\0", 3, None)
    given = [clock(b"w", Time(5, -1, -1)), waits]
    assert not rows.is_time(waits.key)
    assert list(rows.clocks_of_task(given, 0, frozenset({"w"}), 1)) == given
    assert list(rows.clocks_of_task(given, 0, frozenset({"v"}), 1)) == []
    assert sorted(rows.clocks_of_all({0: given}, 1)) == sorted(given)


def row(key: str, value: str | None, timestamp: int = 0) -> Change:
    return Change("s", key.encode(), None if value is None else value.encode(), timestamp, None)


def test_a_changelog_gets_changes_and_tombstones() -> None:
    before = [row("same", "1", 5), row("old", "1"), row("gone", "1", 3), row("deleted", "1"), row("deleted", None)]
    wanted = [row("same", "1", 5), row("old", "2"), row("new", "1", 4)]
    found = list(rows.to_write(before, wanted, {"s": Retention()}))
    assert found == [(b"old", b"2", 0, None), (b"new", b"1", 4, None), (b"gone", None, 3, None)]
    # Afterwards each key has its last row.
    after = [*before, *(Change("s", *record) for record in found)]
    assert list(rows.to_write(after, wanted, {"s": Retention()})) == []
    # The same value with another timestamp is another row.
    assert list(rows.to_write([row("k", "1", 5)], [row("k", "1", 6)], {"s": Retention()})) == [(b"k", b"1", 6, None)]


def test_versions_are_distinguished_by_their_times() -> None:
    before = [row("k", "1", 1), row("k", "2", 2)]
    wanted = [row("k", "2", 2), row("k", None, 3)]
    assert list(rows.to_write(before, wanted, {"s": Retention(history_ms=10)})) == [(b"k", None, 3, None)]


class Ticking(sf.Processor[str, str, str, str]):
    """Uses stream time."""

    def init(self, context: Any) -> None:
        context.schedule("1s", type=sf.PunctuationType.STREAM_TIME, callback=self.process)

    def process(self, record: Any) -> None:
        """Do nothing."""


class Quiet(sf.Processor[str, str, str, str]):
    """Has state."""

    def process(self, record: Any) -> None:
        """Do nothing."""


def windows(stream: Any) -> Any:
    return stream.group_by_key().windowed_by(sf.TimeWindows("1m", grace="10s"))


def with_store(builder: sf.StreamsBuilder, stream: Any) -> None:
    builder.add_state_store(sf.Stores.key_value("kept", key=str, value=str))
    stream.process(Quiet, stores=["kept"]).to("out", **TEXT)


CASES: list[tuple[Any, int, str]] = [
    (with_store, 2, "process with stores: a row of its store doesn't say which task it belongs to"),
    (lambda b, s: s.process(Ticking).to("out", **TEXT), 1, "Ticking: what it has scheduled is called by the engine's"),
    (
        lambda b, s: windows(s).emit_strategy(sf.EmitStrategy.on_window_close()).count(store="w"),
        2,
        "emit_strategy on_window_close: which windows still wait is noted by partition",
    ),
    (
        lambda b, s: s.left_join(
            b.stream("in", **TEXT), lambda one, _: one, sf.JoinWindows("1m", grace="0s"), name="j"
        ).to("out", **TEXT),
        2,
        "store j-left-shared-join-store: its rows stand by time",
    ),
    (
        lambda b, s: s.deduplicate(lambda key, value: value, within="1d", store="seen").to("out", **TEXT),
        2,
        "deduplicate by a function: rows have what it returns as their key",
    ),
    (lambda b, s: (s.to("back", **TEXT), b.stream("back", **TEXT).to("out", **TEXT)), 1, "topic back is both written"),
]


@pytest.mark.parametrize(("build", "partitions", "message"), CASES)
def test_state_that_cannot_be_handed_over_is_refused_by_name(build: Any, partitions: int, message: str) -> None:
    builder = sf.StreamsBuilder()
    build(builder, builder.stream("in", **TEXT))
    topology, settings = builder.build(), sf.Settings({"application.id": "a"}, environ={})
    with pytest.raises(sf.TopologyError, match="can't be handed over between the engine and Spark") as raised:
        unsupported.check(topology, cut(topology), {"in": partitions}, settings)
    assert message in str(raised.value)


@pytest.mark.parametrize("build", [case[0] for case in CASES if case[1] == 2])
def test_with_one_partition_there_is_one_task_for_all_of_it(build: Any) -> None:
    builder = sf.StreamsBuilder()
    build(builder, builder.stream("in", **TEXT))
    topology = builder.build()
    unsupported.check(topology, cut(topology), {"in": 1}, sf.Settings({"application.id": "a"}, environ={}))


def test_topics_that_are_partitioned_differently_have_different_tasks() -> None:
    builder = sf.StreamsBuilder()
    windows(builder.stream("in", **TEXT)).count(store="w")
    builder.stream("other", **TEXT).group_by_key().count(store="c")
    topology, settings = builder.build(), sf.Settings({"application.id": "a"}, environ={})
    unsupported.check(topology, cut(topology), {"in": 2, "other": 2}, settings)
    with pytest.raises(sf.TopologyError, match=r"different numbers of them \(in 2, other 3\)"):
        unsupported.check(topology, cut(topology), {"in": 2, "other": 3}, settings)


def test_a_table_without_a_changelog_is_refused() -> None:
    builder = sf.StreamsBuilder()
    builder.table("in", **TEXT, store="rows")
    topology = builder.build()
    settings = sf.Settings({"application.id": "a", "topology.optimization": "all"}, environ={})
    with pytest.raises(sf.TopologyError, match=r"store rows: topology.optimization keeps no changelog for it"):
        unsupported.check(topology, cut(topology), {"in": 1}, settings)


def test_a_store_without_a_name_is_refused() -> None:
    builder = sf.StreamsBuilder()
    # Nodes have other numbers in a part.
    builder.stream("other", **TEXT).map(lambda key, value: (value, key)).group_by_key(**TEXT).count(store="named")
    builder.stream("in", **TEXT).group_by_key().count().to_stream().to("out", key=str, value=int)
    topology, settings = builder.build(), sf.Settings({"application.id": "a"}, environ={})
    with pytest.raises(
        sf.TopologyError, match="its name is a number, which is another one in a part of the topology: name it"
    ):
        unsupported.check(topology, cut(topology), {"in": 1, "other": 1}, settings)


@pytest.mark.parametrize("case", [case for case in SAMPLE if case.name not in DIFFERS], ids=lambda case: case.name)
def test_vectors_are_the_same_where_spark_has_the_middle(case: runner.Case) -> None:
    if case.place in REFUSED:
        with pytest.raises(sf.TopologyError, match="can't be handed over between the engine and Spark"):
            twin_handover.run(case, runner.build(case))
    else:
        assert twin_vectors.compare_case(case, twin_handover.run) == []
