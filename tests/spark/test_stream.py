"""The streaming twin on Spark: triggers, a stop and a restart, its output, what it rejects and how it fails."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import shop_twin
import twin_vectors
from small_shop import SCHEMA, SINKS, Files, by_the_engine, orders, per_key, shop, users

import stoatflow as sf
from conformance import runner
from stoatflow.cli import main
from stoatflow.errors import ConfigError, TopologyError
from stoatflow.spark.errors import SparkUnavailableError, TwinError
from stoatflow.spark.twin import input_topics, streaming, task, workers
from stoatflow.spark.twin.stored import read_store
from stoatflow.spark.twin.streaming import run_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Each is two queries, which take some seconds to start. The others run trigger by trigger in
# `test_stream_parts`.
NAMES = ["ss_outer_grace/hand"]
if os.environ.get("STOATFLOW_TEST_TWIN") == "all":
    NAMES += ["word_count/hand", "st_rekeyed/seed1", "tumbling_group_by/hand", "fk_inner/hand", "versioned_table/seed1"]


@pytest.fixture(scope="module", autouse=True)
def one_task_of_spark_for_each_part(spark: SparkSession) -> Iterator[None]:
    """Two would start twice as many workers."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


@pytest.fixture(autouse=True)
def workers_are_as_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The contents of workers are checked in `test_twin`."""
    monkeypatch.setattr(workers, "check_workers", lambda _: None)


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Files:
    return Files(spark, tmp_path)


def test_the_shop_continues_where_it_stopped(spark: SparkSession, files: Files, tmp_path: Path) -> None:
    """Three parts, the last one after the first, both with state; a restart between two triggers."""
    checkpoint, output = tmp_path / "checkpoint", tmp_path / "output"

    def run(topology: sf.Topology) -> None:
        inputs = {topic: files.read(topic) for topic in ("users", "orders")}
        with run_stream(spark, topology, inputs, output, checkpoint=checkpoint, tasks=2, until_end=True) as query:
            assert query.wait()

    files.write("users", users())
    files.write("orders", orders(0, 30))
    run(shop())
    files.write("orders", orders(30, 30))
    run(shop())
    rows = spark.read.parquet(str(output)).orderBy("trigger", "place").collect()
    assert sorted({row["trigger"] for row in rows}) == [0, 1]
    expected = by_the_engine()
    for topic in SINKS:
        found = [(bytes(row["key"]), bytes(row["value"]), row["timestamp"]) for row in rows if row["topic"] == topic]
        assert per_key(found) == per_key(expected[topic]), topic
    last = dict(rows[-1]["headers"])
    assert (last["__stoatflow.twin.topic"], last["__stoatflow.twin.trigger"]) == (b"orders", b"1")
    totals = read_store(spark, shop(), checkpoint, "totals").collect()
    wanted = {key: rows[-1] for key, rows in per_key(expected["per-region"]).items()}
    assert {bytes(row["key"]): (bytes(row["value"]), row["timestamp"]) for row in totals} == wanted

    # The session is unchanged.
    assert "HDFSBackedStateStoreProvider" in (spark.conf.get("spark.sql.streaming.stateStore.providerClass") or "")
    _others_are_refused(spark, files, checkpoint)


def _others_are_refused(spark: SparkSession, files: Files, checkpoint: Path) -> None:
    """The checkpoint is that of the shop with one partition, and rejects anything else."""
    with pytest.raises(TwinError, match=r"keeps no store 'nothing'; it keeps totals, users-table"):
        read_store(spark, shop(), checkpoint, "nothing")
    inputs = {topic: files.read(topic) for topic in ("users", "orders")}

    def start(topology: sf.Topology, **more: Any) -> None:
        read = {topic: inputs[topic] for topic in input_topics.topics_read(topology)}
        run_stream(spark, topology, read, print, checkpoint=checkpoint, **more)

    other = stream(lambda s: s.group_by_key().count(store="counts"), "orders")
    with pytest.raises(TwinError, match=r"belongs to another topology: it has 'part 0: users, orders -> .*this one"):
        start(other)
    with pytest.raises(TwinError, match=r"was begun with 1 partition\(s\) of orders, now it has 3"):
        start(shop(), partitions={"orders": 3})
    with pytest.raises(TwinError, match="was begun with 2 tasks, not 3: leave tasks= out"):
        start(shop(), tasks=3)


@pytest.mark.parametrize("case", [case for case in runner.cases() if case.name in NAMES], ids=lambda case: case.name)
def test_vectors_are_the_same_on_spark(case: runner.Case, spark: SparkSession, files: Files, tmp_path: Path) -> None:
    """In two runs, the second of which continues from the checkpoint of the first."""
    topology = runner.build(case)
    rows = twin_vectors.inputs(case)
    made: list[Any] = []

    def run() -> None:
        inputs = {topic: files.read(topic) for topic in input_topics.topics_read(topology)}
        with run_stream(
            spark,
            topology,
            inputs,
            lambda frame, trigger: made.extend((trigger, row) for row in frame.collect()),
            checkpoint=tmp_path / "checkpoint",
            config=runner.config(case),
            tasks=2,
            until_end=True,
        ) as query:
            query.wait()

    middle = len(rows) // 2
    for begin, end in ((0, middle), (middle, len(rows))):
        for topic in sorted({row["name"] for row in rows[begin:end]}):
            files.write(topic, [_as_given(row) for row in rows[begin:end] if row["name"] == topic])
        run()
    assert {trigger for trigger, _ in made} == {0, 1}
    found = [_as_made(row) for _, row in sorted(made, key=lambda each: (each[0], each[1]["place"]))]
    for store in {store for part in streaming.cut(topology) for store in part.stores}:
        for row in read_store(spark, topology, tmp_path / "checkpoint", store).collect():
            kept = {name: bytes(row[name]) for name in ("key", "value")}
            found.append(
                task.Row(
                    task.STORE, store, 0, None, kept["key"], kept["value"], row["timestamp"], None, row["start"],
                    row["end"], None,
                )
            )  # fmt: skip
    assert list(twin_vectors.differences(case, topology, found)) == []


def _as_given(row: dict[str, Any]) -> tuple[Any, ...]:
    headers = [(header["key"], header["value"]) for header in row["headers"]]
    return row["key"], row["value"], row["timestamp"], headers, row["order"], 0


def _as_made(row: Any) -> task.Row:
    headers = [(h["key"], h["value"] and bytes(h["value"])) for h in row["headers"]]
    own = [(name, value) for name, value in headers if not name.startswith("__stoatflow.twin.")]
    key, value = (None if row[name] is None else bytes(row[name]) for name in ("key", "value"))
    # Triggers follow each other, and so do the rows of this list.
    return task.Row(task.RECORD, row["topic"], 0, None, key, value, row["timestamp"], own or None, None, None, b"")


def test_tasks_are_spread_evenly_over_the_partitions_of_spark(spark: SparkSession) -> None:
    from pyspark.sql import functions as f

    groups = streaming.groups_of(spark, 10, 4)
    assert len(set(groups)) == 10
    rows = spark.createDataFrame([(group,) for group in groups], "group int").repartition(4, "group")
    by_partition = rows.groupBy(f.spark_partition_id()).count().collect()
    assert sorted(row["count"] for row in by_partition) == [2, 2, 3, 3]


def stream(build: Callable[[Any], object], topic: str = "in") -> sf.Topology:
    builder = sf.StreamsBuilder()
    build(builder.stream(topic, key=str, value=str))
    return builder.build()


def fails(value: str) -> str:
    raise ZeroDivisionError(f"no {value}")


def test_a_failing_function_is_named_with_its_error(spark: SparkSession, files: Files, tmp_path: Path) -> None:
    topology = stream(lambda s: s.map_values(fails).to("out", key=str, value=str))
    files.write("in", [(b"k", b"bread", 1, None, 0, 0)])
    with (
        run_stream(
            spark, topology, {"in": files.read("in")}, print, checkpoint=tmp_path / "checkpoint", until_end=True
        ) as query,
        pytest.raises(TwinError, match=r"the query failed in a worker: .*ZeroDivisionError: no bread"),
    ):
        query.wait()


def test_inputs_and_folders_are_checked_first(
    spark: SparkSession, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = stream(lambda s: s.map_values(str.upper).to("out", key=str, value=str))

    def start(inputs: Any, output: Any = print, **more: Any) -> None:
        run_stream(spark, topology, inputs, output, **{"checkpoint": tmp_path / "checkpoint"} | more)

    with pytest.raises(ConfigError, match="reads in, of which no input is given"):
        start({})
    with pytest.raises(ConfigError, match="for other, which the topology doesn't read"):
        start({"in": files.read("in"), "other": files.read("in")})
    with pytest.raises(ConfigError, match="the input of in is no streaming DataFrame"):
        start({"in": spark.createDataFrame([], SCHEMA)})
    with pytest.raises(ConfigError, match="neither offset nor order"):
        start({"in": files.read("in").drop("order")})
    for where in ({"inputs": "embedded:there"}, {"inputs": {"in": files.read("in")}, "output": "embedded:there"}):
        with pytest.raises(TwinError, match="is an embedded broker, whose topics one process may open"):
            start(**where)
    with pytest.raises(TopologyError, match="the watermark is the least of all partitions"):
        start({"in": files.read("in")}, config={"time.semantics": "watermark"})
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    with pytest.raises(TwinError, match="belongs to a query that is no streaming twin"):
        start({"in": files.read("in")})
    with pytest.raises(TwinError, match="nothing has begun in"):
        read_store(spark, topology, tmp_path / "nowhere", "counts")
    monkeypatch.setitem(__import__("sys").modules, "pyspark.sql.streaming.proto.StateMessage_pb2", None)
    with pytest.raises(SparkUnavailableError, match="Spark's state needs protobuf"):
        start({"in": files.read("in")})


def test_the_command_requires_a_checkpoint_and_a_broker(capsys: pytest.CaptureFixture[str]) -> None:
    app = str(Path(shop_twin.__file__))
    for options, output in (
        (["--bootstrap", "localhost:1"], "--checkpoint is missing"),
        (["--checkpoint", "c"], "--bootstrap is missing"),
        (["--checkpoint", "c", "--bootstrap", "embedded:x"], "embedded:x is an embedded broker"),
        (["--checkpoint", "c", "--bootstrap", "localhost:1", "--input", "orders=x"], "--input is not for a stream"),
        (["--batch", "--checkpoint", "c"], "--checkpoint is not for --batch"),
    ):
        assert main(["run", app, "--engine", "spark", *options]) == 2
        assert output in capsys.readouterr().err
    assert main(["run", app, "--batch"]) == 2
    assert "write --engine spark --batch" in capsys.readouterr().err
