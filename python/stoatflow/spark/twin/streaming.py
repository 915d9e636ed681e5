"""Runs a topology on Spark continuously: the streaming twin.

Takes a topology, a broker or streaming DataFrames, a checkpoint; returns a `TwinQuery`, which writes records trigger by
trigger. Owns the query: a chain of parts, with state where needed. A restart continues from the checkpoint. The engine
does the computation, in `resumed_task`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from stoatflow.spark import connected
from stoatflow.spark.errors import SparkUnavailableError
from stoatflow.spark.loading.frames import require_arrow
from stoatflow.spark.twin import checkpoint as checkpoints
from stoatflow.spark.twin import faithful, handed_over, input_topics, output_records, stages, workers
from stoatflow.spark.twin.parts import KEYS, PARTITIONS, Part, cut
from stoatflow.spark.twin.routing import SCHEMA, Routes, routes
from stoatflow.spark.twin.running import Say, pairs_of
from stoatflow.spark.twin.task import Work
from stoatflow.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from stoatflow.settings import Settings

_STATE_STORE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # Otherwise every trigger uploads whole files of RocksDB.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


class TwinQuery:
    """A running streaming twin."""

    def __init__(self, parts: Sequence[Part], query: StreamingQuery) -> None:
        """Created by `run_stream`."""
        self.parts: tuple[Part, ...] = tuple(parts)
        self.query = query

    def describe(self) -> str:
        """Return the parts, one line each."""
        return "\n".join(part.describe() for part in self.parts)

    def wait(self, timeout: int | None = None) -> bool:
        """Wait until it ends: after `stop`, or at the end with `until_end`. Returns False after `timeout` seconds.

        Raises:
            TwinError: it has failed.

        """
        from pyspark.errors import StreamingQueryException

        try:
            if timeout is None:
                self.query.awaitTermination()
                return True
            return bool(self.query.awaitTermination(timeout))
        except StreamingQueryException as error:
            raise workers.translated_error(error, "the query") from error

    def progress(self) -> list[tuple[int, int]]:
        """Return the last triggers, each with the number of records read."""
        return [(each["batchId"], each["numInputRows"]) for each in self.query.recentProgress]

    def stop(self) -> None:
        """Stop; the next run repeats the unfinished trigger."""
        self.query.stop()

    def __enter__(self) -> TwinQuery:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()


def run_stream(
    spark: SparkSession,
    topology: Topology,
    inputs: str | Mapping[str, DataFrame],
    output: str | Path | output_records.Output,
    *,
    checkpoint: str | Path,
    client: Mapping[str, str] | None = None,
    config: Settings | Mapping[str, object] | None = None,
    partitions: Mapping[str, int] | None = None,
    tasks: int | None = None,
    every: str = "0 seconds",
    until_end: bool = False,
    at_most: int = 200_000,
    removed: bool = False,
    say: Say | None = None,
) -> TwinQuery:
    """Run a topology from the checkpoint, or from the beginning of its inputs.

    `inputs` is the address of a Kafka broker, or a streaming DataFrame for each topic with the columns that `run_batch`
    takes; then `partitions` is the number per topic, one by default. `output` is the address of a broker, a folder (a
    `Path`) for Parquet files, or a function that is called with the records of each trigger and its number.

    `every` is the interval of triggers; by default, a trigger begins as soon as the last one is done. A trigger reads
    `at_most` records from Kafka. `until_end` stops at the current ends of the inputs. `removed` accepts that retention
    has removed records of the input.

    Raises:
        TopologyError: the streaming twin refuses the topology; lists everything that is refused.
        TwinError: a function can't be pickled, or the checkpoint belongs to another topology.

    """
    connected.need_classic(spark, "a stream", connected.BATCH)
    require_arrow()
    _require_protobuf()
    faithful.check(topology, streaming=True)
    parts = cut(topology)
    pairs = pairs_of(config)
    workers.check_pickles(topology.nodes)
    folder = str(checkpoint)
    begun, over = checkpoints.read(spark, folder), handed_over.begun(spark, folder)
    source = input_topics.source(
        spark,
        topology,
        inputs,
        client,
        partitions,
        at_most=at_most,
        removed=removed,
        begin=None if over is None else over.offsets,
        has_read=bool(checkpoints.names(spark, folder, "offsets")),
    )
    many = tasks or (begun.tasks if begun is not None else 2 * spark.sparkContext.defaultParallelism)
    counts = tasks_of(parts, source.partitions, many)
    shuffle = begun.shuffle if begun is not None else shuffle_of(spark, counts)
    plan = checkpoints.plan(parts, source.partitions, many, shuffle)
    if begun is not None:
        checkpoints.compare(folder, begun, plan)
    workers.check_workers(spark)
    writer = _output(spark, topology, output, client, parts)
    if begun is None:
        checkpoints.write(spark, folder, plan)
    if say is not None:
        for part in parts:
            say(part.describe())
    way = routes(parts, source.partitions, counts, handed_over=over is not None)
    groups = groups_of(spark, max(counts.values()), shuffle)
    state = None if over is None else handed_over.rows(spark, folder)
    rows = _line(source.rows, state, [_step(part, way, counts, pairs, groups) for part in parts], parts)
    started = rows.writeStream.foreachBatch(_each(writer, way)).option("checkpointLocation", folder)
    started = started.outputMode("append").queryName(f"stoatflow-{uuid.uuid4().hex[:8]}")
    triggered = started.trigger(availableNow=True) if until_end else started.trigger(processingTime=every)
    with _conf(spark, _STATE_STORE | {"spark.sql.shuffle.partitions": str(shuffle)}):
        return TwinQuery(parts, triggered.start())


@contextmanager
def _conf(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set what a query reads from the session at its start, and restore the session afterwards."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, wanted in settings.items():
        spark.conf.set(name, wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


def _require_protobuf() -> None:
    """Raise an error before Spark's worker ends without a message."""
    try:
        import pyspark.sql.streaming.proto.StateMessage_pb2  # noqa: F401
    except ImportError as error:
        raise SparkUnavailableError(
            f"Spark's state needs protobuf ({error}), which PySpark doesn't bring along. Install what the extra names: "
            "pip install 'stoatflow[spark]'"
        ) from error


def tasks_of(parts: Sequence[Part], partitions: Mapping[str, int], many: int) -> dict[int, int]:
    """Return the number of tasks of each part."""
    found = {}
    for part in parts:
        wide = max((partitions.get(topic, 1) for topic in part.after), default=1)
        faithful.check_partitions(part.how, part.timed, wide, part.number)
        found[part.number] = many if part.how == KEYS else wide if part.how == PARTITIONS else 1
    return found


def shuffle_of(spark: SparkSession, counts: Mapping[int, int]) -> int:
    """Return the number of Spark's partitions for the tasks: not more than there are tasks."""
    return min(int(spark.conf.get("spark.sql.shuffle.partitions") or 200), max(counts.values()))


def groups_of(spark: SparkSession, tasks: int, shuffle: int) -> tuple[int, ...]:
    """Return a number for each task whose hashes distribute the tasks evenly over Spark's partitions.

    By the hashes of their own numbers, four tasks would share two or three of four partitions.
    """
    from pyspark.sql import functions as f

    number = f.col("id").cast("int")
    slots = spark.range(64 * max(tasks, shuffle)).select(number, f.pmod(f.hash(number), f.lit(shuffle))).collect()
    found: dict[int, list[int]] = {slot: [] for slot in range(shuffle)}
    for candidate, slot in slots:
        found[slot].append(candidate)
    return tuple(found[task % shuffle][task // shuffle] for task in range(tasks))


def _step(
    part: Part,
    way: Routes,
    counts: Mapping[int, int],
    pairs: tuple[tuple[str, object], ...],
    groups: tuple[int, ...],
) -> stages.Step:
    work = Work(
        number=part.number,
        nodes=part.nodes,
        pairs=pairs,
        keep_null=part.keep_null,
        sinks=part.sinks,
        dynamic=part.dynamic,
        stores=part.stores,
        # Records of the output have headers that say which record produced them.
        batched=part.batched and not (part.sinks or part.dynamic),
        partitions=counts[part.number] if part.how == PARTITIONS else None,
    )
    return stages.Step(uuid.uuid4().hex, work, way, groups)


def _line(source: DataFrame, state: DataFrame | None, steps: Sequence[stages.Step], parts: Sequence[Part]) -> DataFrame:
    """Chain the parts: Spark would compute what two branches of a query share once for each branch."""
    from pyspark.sql import functions as f

    rows = source.mapInArrow(stages.sources(steps[0].routes), SCHEMA)
    if state is not None:
        rows = rows.unionByName(state)
    for step, part in zip(steps, parts, strict=True):
        if not _keeps(part):
            rows = rows.mapInArrow(stages.stateless(step), SCHEMA)
            continue
        # It has the methods that Spark calls.
        processor = cast("Any", stages.Stateful(step))
        task, mine = f.col("task"), f.col("part") == part.number
        group = f.when(mine, f.element_at(f.array(*map(f.lit, step.groups)), task + 1)).otherwise(-1 - task)
        grouped = rows.withColumn("group", group).groupBy("group")
        rows = grouped.transformWithStateInPandas(processor, SCHEMA, "Append", "None")
    return rows


def _keeps(part: Part) -> bool:
    """Whether the part has anything that must outlive a trigger."""
    stores = json.loads(Topology(part.nodes).plan.physical_json)["stores"]
    return part.how != KEYS or part.keyed or bool(part.timed) or bool(stores)


def _each(writer: output_records.Output, way: Routes) -> Callable[[DataFrame, int], None]:
    def write(rows: DataFrame, trigger: int) -> None:
        writer(output_records.records(rows, way.topics, way.end, trigger), trigger)

    return write


def _output(
    spark: SparkSession,
    topology: Topology,
    output: str | Path | output_records.Output,
    client: Mapping[str, str] | None,
    parts: Sequence[Part],
) -> output_records.Output:
    if isinstance(output, Path):
        return output_records.to_files(output)
    if not isinstance(output, str):
        return output_records.to_function(output)
    input_topics.refuse_embedded(output)
    from stoatflow.spark.kafka import KafkaTopics

    topics = KafkaTopics(spark, output, client)
    counts = {topic: len(topics.high_watermarks(topic)) for topic in sorted({t for part in parts for t in part.sinks})}
    windowed = output_records.windowed_topics(topology, counts)
    return output_records.to_kafka(output, client, spark.sparkContext.defaultParallelism, windowed)
