"""The streaming twin without Spark: state between triggers, what continues after a restart, what is rejected."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import twin_triggers
import twin_vectors
from twin_triggers import Cells

import stoatflow as sf
from conformance import runner
from stoatflow.cli import main
from stoatflow.errors import TopologyError
from stoatflow.spark.twin import faithful, output_records, resumed_task, schedules, task_state
from stoatflow.spark.twin.once import Once
from stoatflow.spark.twin.parts import cut
from stoatflow.spark.twin.resumed_task import ResumedTask
from stoatflow.spark.twin.routing import Routed, place_of, routes
from stoatflow.spark.twin.running import pairs_of
from stoatflow.spark.twin.task import HOP, RECORD, Row, Work, murmur2
from stoatflow.spark.twin.task_state import Change, Retention, TaskState

ALL = runner.cases()
DIFFERS = {
    line.partition(":")[0]: line.partition(": ")[2]
    for line in (Path(__file__).parent / "stream_differs.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
}
EVERY = 1 if os.environ.get("STOATFLOW_TEST_TWIN") == "all" else 17
SAMPLE = [case for at, case in enumerate(ALL) if at % EVERY == 3 % EVERY]
REFUSED = [case for case in ALL if DIFFERS.get(case.name, "").endswith("refused")]


@pytest.fixture(autouse=True)
def no_engine_outlives_a_test() -> Iterator[None]:
    yield
    twin_triggers.end_engines()


def test_vectors_that_differ_are_listed_by_name() -> None:
    assert {case.name for case in ALL} >= set(DIFFERS)
    assert 1 - len(DIFFERS) / len(ALL) >= 0.93


@pytest.mark.parametrize("case", [case for case in SAMPLE if case.name not in DIFFERS], ids=lambda case: case.name)
def test_vectors_are_the_same_trigger_by_trigger(case: runner.Case) -> None:
    """Also if the engines end in the middle, again and again."""
    assert twin_vectors.compare_case(case, twin_triggers.run) == []


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_vectors_listed_as_refused_are_refused(case: runner.Case) -> None:
    with pytest.raises(TopologyError, match="this topology has no streaming twin"):
        faithful.check(runner.build(case), streaming=True)


def change(key: str, value: str | None, timestamp: int = 0, store: str = "s") -> Change:
    return Change(store, key.encode(), None if value is None else value.encode(), timestamp, None)


def test_a_chunk_gives_its_rows_again() -> None:
    rows = [
        change("a", "1", 5),
        change("b", None),
        Change("s", None, b"", 7, task_state.packed([("h", None), ("é", b"x")])),
    ]
    assert list(task_state.read_chunk(task_state.chunk(rows))) == rows
    assert task_state.unpacked(rows[2].headers) == [("h", None), ("é", b"x")]


def test_state_is_appended_and_compacted_when_half_of_it_is_old() -> None:
    cells = Cells()
    for trigger in range(12):
        assert TaskState(cells, {}).token == (f"t{trigger - 1}" if trigger else "")
        TaskState(cells, {}).add([change(f"k{n}", f"{trigger}") for n in range(400)], f"t{trigger}")
        if trigger == 1:
            # The last head, and a chunk of each trigger.
            assert sorted(cells.data) == [-1, 0, 1]
    assert len(cells.data) < 6
    TaskState(cells, {}).add([change("k0", None)], "end")
    rows = TaskState(cells, {}).rows()
    assert {(row.key, row.value) for row in rows} == {(f"k{n}".encode(), b"11") for n in range(1, 400)}


def test_many_rows_are_several_chunks() -> None:
    cells = Cells()
    TaskState(cells, {}).add([change(f"k{n}", "x") for n in range(12_000)], "t")
    assert sorted(cells.data) == [-1, 0, 1, 2]
    assert len(TaskState(cells, {}).rows()) == 12_000


def test_windows_expire_a_day_after_retention_and_versions_keep_the_last() -> None:
    day = 86_400_000
    rows = [change("old", "1", 0), change("young", "1", 100), change("new", "1", day + 200)]
    windows = task_state.compacted(rows, {"s": Retention(retention_ms=100)})
    assert [row.key for row in windows] == [b"young", b"new"]
    versions = [change("k", "1", 0), change("k", "2", 10), change("k", None, day + 300), change("other", "1", 0)]
    found = task_state.compacted(versions, {"s": Retention(history_ms=100)})
    assert [(row.key, row.value) for row in found] == [(b"k", None), (b"other", b"1")]


def counting() -> ResumedTask:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).group_by_key().count(store="counts").to_stream().to(
        "out", key=str, value=int
    )
    (part,) = cut(builder.build())
    work = Work(0, part.nodes, pairs_of(None), {}, part.sinks, False, part.stores, False, None)
    return ResumedTask("test", work)


def record(key: str, offset: int) -> tuple[Any, ...]:
    return 0, "in", key.encode(), b"x", offset, [], place_of(offset, 0, 0, offset), False


def counts(rows: Iterator[Row]) -> list[int]:
    return [int.from_bytes(row.value or b"", "big") for row in rows if row.kind == RECORD]


def test_an_engine_is_reused_by_the_next_trigger_unless_one_failed() -> None:
    tasks, cells = counting(), Cells()
    assert counts(tasks.trigger(0, [record("a", 0)], TaskState(cells, tasks.retentions))) == [1]
    driver = resumed_task._ENGINES["test", 0, 0].driver
    before = dict(cells.data)
    assert counts(tasks.trigger(0, [record("a", 1)], TaskState(cells, tasks.retentions))) == [2]
    assert resumed_task._ENGINES["test", 0, 0].driver is driver
    # Spark discards the attempt and its writes.
    cells.data.clear()
    cells.data.update(before)
    assert counts(tasks.trigger(0, [record("a", 1)], TaskState(cells, tasks.retentions))) == [2]
    assert resumed_task._ENGINES["test", 0, 0].driver is not driver


def test_an_attempt_that_raises_leaves_no_engine_and_no_state() -> None:
    tasks, cells = counting(), Cells()
    wrong = (0, "nowhere", b"a", b"x", 0, [], b"", False)
    with pytest.raises(sf.StoatFlowError):
        list(tasks.trigger(0, [record("a", 0), wrong], TaskState(cells, tasks.retentions)))
    assert resumed_task._ENGINES == {}
    assert cells.data == {}
    assert counts(tasks.trigger(0, [record("a", 0)], TaskState(cells, tasks.retentions))) == [1]


def test_engines_are_renewed_and_their_number_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumed_task, "_RENEWED", 2)
    monkeypatch.setattr(resumed_task, "_ALIVE", 2)
    tasks = counting()
    cells = [Cells() for _ in range(4)]
    for task in range(4):
        list(tasks.trigger(task, [record("a", 0)], TaskState(cells[task], tasks.retentions)))
    assert list(resumed_task._ENGINES) == [("test", 0, 2), ("test", 0, 3)]
    assert counts(tasks.trigger(3, [record("a", n) for n in (1, 2)], TaskState(cells[3], tasks.retentions))) == [2, 3]
    assert list(resumed_task._ENGINES) == [("test", 0, 2)]
    assert counts(tasks.trigger(0, [record("a", 1)], TaskState(cells[0], tasks.retentions))) == [2]


class LastHeaders(sf.ContextualProcessor[str, str, str, str]):
    """Forwards the headers with which the key's last value was put."""

    def process(self, record: sf.Record[str, str]) -> None:
        kept = self.context.state_store("last")
        before = kept.get(record.key)
        kept.put(record.key, sf.ValueTimestampHeaders(record.value, record.timestamp, record.headers))
        if before is not None:
            self.context.forward(record.replace(headers=before.headers))


def test_headers_of_a_store_outlive_its_engine() -> None:
    builder = sf.StreamsBuilder()
    builder.add_state_store(sf.Stores.persistent_timestamped_key_value("last", key=str, value=str, headers=True))
    builder.stream("in", key=str, value=str).process(LastHeaders, stores=["last"]).to("out", key=str, value=str)
    topology = builder.build()
    faithful.check(topology, streaming=True)
    (part,) = cut(topology)
    tasks = ResumedTask("test", Work(0, part.nodes, pairs_of(None), {}, part.sinks, False, part.stores, False, None))
    cells = Cells()
    first, *rest = record("a", 0)
    traced = (first, *rest[:4], [{"key": "trace", "value": b"7f"}], *rest[5:])
    assert list(tasks.trigger(0, [traced], TaskState(cells, tasks.retentions))) == []
    twin_triggers.end_engines()
    out = [row for row in tasks.trigger(0, [record("a", 1)], TaskState(cells, tasks.retentions)) if row.kind == RECORD]
    assert [list(row.headers or ()) for row in out] == [[("trace", b"7f")]]
    rows = list(tasks.store_rows(0, TaskState(cells, tasks.retentions).rows()))
    assert [(row.key, row.value) for row in rows] == [(b"a", b"x")]


def shop_routes() -> Any:
    import shop_twin

    parts = cut(shop_twin.topology)
    return routes(parts, {"users": 3, "orders": 3}, {0: 4, 1: 4, 2: 3, 3: 4})


def test_a_record_goes_to_each_part_that_reads_it() -> None:
    found = list(shop_routes().of_source("orders", 2, 7, 5_000, (b"ann", b"1", 5_000, None)))
    assert [row.part for row in found] == [0, 1, 2]
    # By key if nothing depends on time, otherwise by partition.
    assert found[0].task == found[1].task
    assert found[2].task == 2
    assert {row.place for row in found} == {place_of(5_000, 0, 2, 7)}
    assert [row.part for row in shop_routes().of_source("users", 0, 0, 1, (None, b"1", 1, None))] == [0]


def test_outputs_of_a_part_go_to_the_next_part_or_a_sink() -> None:
    place = place_of(5_000, 0, 2, 7) + b"\0\0\0\0\0\0"
    hop = Row(HOP, "twin-hop-0", 1, murmur2(b"n"), b"n", b"v", 5, None, None, None, place)
    (walked,) = shop_routes().of_part(hop)
    assert (walked.part, walked.task) == (3, shop_routes().hops["twin-hop-0"][0].task(b"n", 0))
    (out,) = shop_routes().of_part(hop._replace(kind=RECORD, name="large", headers=[("h", b"x")]))
    assert out == Routed(4, 1, "large", b"n", b"v", 5, task_state.packed([("h", b"x")]), place, False)


def test_a_partition_missing_in_the_checkpoint_ends_the_query() -> None:
    with pytest.raises(TopologyError, match="orders has got the partition 3, and the checkpoint was begun with 3"):
        list(shop_routes().of_source("orders", 3, 0, 1, (b"ann", b"1", 1, None)))


def headers(offset: int, trigger: int, number: int = 0) -> list[tuple[str, bytes | None]]:
    place = place_of(1, 0, 2, offset) + b"\0\1" + number.to_bytes(4, "big")
    return output_records.provenance(["orders"], place, 77, trigger)


def test_headers_hold_the_origin_of_a_record() -> None:
    output = {name.removeprefix("__stoatflow.twin."): value for name, value in headers(7, 4, 3)}
    assert output == {
        "topic": b"orders", "partition": b"2", "offset": b"7", "ordinal": b"1.3", "timestamp": b"77", "trigger": b"4"
    }  # fmt: skip


def test_a_reader_drops_duplicate_writes() -> None:
    once = Once()
    written = [(1, 0), (2, 0), (3, 1), (4, 1), (3, 1), (4, 1), (4, 1, 1), (1, 0), (5, 2)]
    assert [at for at, of in enumerate(written) if once.is_new(headers(*of))] == [0, 1, 2, 3, 6, 8]
    with pytest.raises(ValueError, match="has no headers of a streaming twin"):
        once.is_new([("h", b"x")])


class Ticks(sf.Processor[str, str, str, str]):
    """Uses the machine's clock."""

    def init(self, context: Any) -> None:
        self.store = context.state_store("s")
        context.schedule("1s", sf.PunctuationType.WALL_CLOCK_TIME, self.process).cancel()
        raise RuntimeError("what comes after that doesn't matter")

    def process(self, record: Any) -> None:
        """Do nothing."""


class Streams(Ticks):
    """Uses stream time."""

    def init(self, context: Any) -> None:
        context.schedule("1s", type=sf.PunctuationType.STREAM_TIME, callback=self.process)


def test_a_schedule_by_the_wall_clock_is_seen_before_the_first_record() -> None:
    assert schedules.by_wall_clock(Ticks)
    assert not schedules.by_wall_clock(Streams)


def stream(build: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    build(builder, builder.stream("in", key=str, value=str))
    return builder.build()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda b, s: s.process(Ticks).to("out", key=str, value=str), "Ticks schedules by the wall clock: a task runs"),
        (lambda b, s: b.global_table("g", key=str, value=str), "global_table: which of its rows a record meets would"),
        (
            lambda b, s: s.group_by_key().count(store=sf.Materialized("c", logging=False)),
            "logging=False: what a store keeps goes into Spark's state",
        ),
        (
            lambda b, s: b.stream("w", key=str, value=str, timestamp=lambda record, _: record.timestamp).to("out"),
            "timestamp= with a function, or of the partition: the time of a partition is in no changelog",
        ),
        (lambda b, s: b.scheduled("tick", every="1s").to("ticks", key=str, value=dict), "scheduled: a task runs when"),
    ],
)
def test_refusals_name_the_operator_and_an_alternative(build: Any, message: str) -> None:
    with pytest.raises(TopologyError) as raised:
        faithful.check(stream(build), streaming=True)
    assert message in str(raised.value)
    assert "test_stream_parts.py:" in str(raised.value)


def test_the_streaming_table_names_operators_and_settings_that_exist() -> None:
    assert set(faithful.STREAMING) <= {*faithful.OPERATORS, *faithful.OTHERS}


def test_describe_names_the_reason_of_a_refusal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = tmp_path / "app.py"
    app.write_text(
        "import stoatflow as sf\n"
        "builder = sf.StreamsBuilder()\n"
        "names = builder.global_table('names', key=str, value=str)\n"
        "builder.stream('in', key=str, value=str).join(names, lambda k, v: k, lambda v, n: n).to('out', value=str)\n"
        "topology = builder.build()\n",
        "utf-8",
    )
    assert main(["describe", str(app), "--engine", "spark"]) == 0
    printed = capsys.readouterr().out
    assert "global_table differs: all of its topic is read" in printed
    assert "has no streaming twin" in printed
    assert "global_table: which of its rows a record meets would depend on the trigger" in printed


def test_windowed_keys_go_to_the_partition_of_the_key_within() -> None:
    builder = sf.StreamsBuilder()
    grouped = builder.stream("orders", key=str, value=str).group_by_key()
    grouped.windowed_by(sf.TimeWindows("1m", grace="0s")).count(store="w").to_stream().to("windows")
    grouped.windowed_by(sf.SessionWindows("1m", grace="0s")).count(store="s").to_stream().to("sessions")
    grouped.count(store="c").to_stream().to("counts")
    windowed = output_records.windowed_topics(builder.build(), {"windows": 8, "sessions": 3, "counts": 5})
    one, two = (1).to_bytes(8, "big"), (2).to_bytes(8, "big")
    keys = {"windows": b"ann" + one, "sessions": b"ann" + two + one, "counts": b"ann"}
    batch = pa.record_batch({"topic": [*keys, "windows"], "key": pa.array([*keys.values(), None], pa.binary())})
    (made,) = output_records._with_partitions(windowed)([batch])
    assert made.column("partition").to_pylist() == [murmur2(b"ann") % 8, murmur2(b"ann") % 3, None, None]
    assert made.schema.names == ["topic", "key", "partition"]
