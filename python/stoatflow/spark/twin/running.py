"""Runs a topology on Spark over a bounded input.

Takes a topology, a DataFrame for each of its source topics; returns a `TwinResult`: records and stores as DataFrames.
Records are processed by `order` if the input has it, otherwise by time, then by topic, partition and offset. Never
changes a topic.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from stoatflow.errors import ConfigError, TopologyError
from stoatflow.settings import Settings
from stoatflow.spark import connected
from stoatflow.spark.errors import TwinError
from stoatflow.spark.loading.frames import require_arrow
from stoatflow.spark.twin import faithful, task, workers
from stoatflow.spark.twin import settings as settings_of_tasks
from stoatflow.spark.twin.parts import KEYS, NAMED, ONE, PARTITIONS, Part, cut, topics_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from stoatflow.topology import Topology

Say = Callable[[str], None]

_INPUT = ("partition", "key", "value", "timestamp", "headers")


class TwinResult:
    """The results of a batch."""

    def __init__(self, topology: Topology, parts: Sequence[Part], made: Sequence[DataFrame]) -> None:
        """Created by `run_batch`."""
        self.topology = topology
        self.parts: tuple[Part, ...] = tuple(parts)
        self._made = made

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics that the topology writes to, by name; topics chosen by functions only if they got a record."""
        named = {name for part in self.parts for name in part.sinks}
        if any(part.dynamic for part in self.parts):
            named |= {row[0] for row in self.records().select("name").distinct().collect()}
        return tuple(sorted(named))

    @property
    def stores(self) -> tuple[str, ...]:
        """Names of the named stores."""
        return tuple(sorted({name for part in self.parts for name in part.stores}))

    def records(self) -> DataFrame:
        """Return all records: name (of the topic), key, value, timestamp, headers, and place, to sort them by."""
        wanted = ("name", "key", "value", "timestamp", "headers", "place")
        return self._of(task.RECORD).select(*wanted)

    def output(self, topic: str) -> DataFrame:
        """Return the records of a topic in order: key, value, timestamp, headers."""
        if topic not in self.topics:
            raise TwinError(f"the topology writes no topic '{topic}'; it writes {', '.join(self.topics) or 'none'}")
        rows = self.records().where(f"name = '{_quoted(topic)}'").orderBy("place")
        return rows.select("key", "value", "timestamp", "headers")

    def store(self, name: str) -> DataFrame:
        """Return the rows of a store at the end: key, start and end of the window, value, timestamp."""
        if name not in self.stores:
            raise TwinError(f"the topology keeps no store '{name}'; it keeps {', '.join(self.stores) or 'none'}")
        rows = self._of(task.STORE).where(f"name = '{_quoted(name)}'")
        return rows.select("key", "start", "end", "value", "timestamp")

    def drops(self) -> dict[tuple[str, str], int]:
        """Return the number of dropped records by node and reason; a node that several parts compute counts once.

        A node is identified by its name in the topology, or by its line.
        """
        from pyspark.sql import functions as f

        rows = self._of(task.DROP).groupBy("hash", "name", "key").agg(f.sum("timestamp").alias("count")).collect()
        found: dict[tuple[str, str], int] = {}
        by_part: Counter[tuple[int, str, str]] = Counter()
        for row in rows:
            by_part[row["hash"], self._node(row["name"]), bytes(row["key"]).decode()] += row["count"]
        for (_, node, reason), count in by_part.items():
            found[node, reason] = max(found.get((node, reason), 0), count)
        return found

    def _node(self, name: str) -> str:
        place = re.match(rf"{NAMED}(\d+)", name)
        if place is None:
            return name
        node = self.topology.nodes[int(place[1])]
        return f"{node.line} {node.op}"

    def describe(self) -> str:
        """Return the parts, one line each."""
        return "\n".join(part.describe() for part in self.parts)

    def close(self) -> None:
        """Release what Spark keeps of this run."""
        for frame in self._made:
            frame.unpersist()

    def _of(self, kind: str) -> DataFrame:
        frames = [frame.where(f"kind = '{kind}'") for frame in self._made]
        return functools.reduce(lambda one, other: one.unionByName(other), frames)

    def __enter__(self) -> TwinResult:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()


def run_batch(
    topology: Topology,
    inputs: Mapping[str, DataFrame],
    *,
    config: Settings | Mapping[str, object] | None = None,
    partitions: Mapping[str, int] | None = None,
    tasks: int | None = None,
    only: Sequence[str] | None = None,
    count_drops: bool = False,
    say: Say | None = None,
) -> TwinResult:
    """Run a topology over these inputs, to their ends.

    A DataFrame has the columns key and value (binary), timestamp (milliseconds); partition and offset where the topic
    has more than one partition or comes from a broker; headers, if there are any; and `order`, a number, if records are
    to be processed in another order than that of their times. `partitions` is the number per topic (by default, those
    that occur), `tasks` the number of tasks of parts that are partitioned by key. `only` names the topics whose records
    are wanted; stores are not available then. With `count_drops`, `TwinResult.drops` has the dropped records.

    Raises:
        TopologyError: the twin refuses the topology; lists everything that is refused.
        TwinError: a function can't be pickled, or a worker fails.

    """
    require_arrow()
    faithful.check(topology)
    known(topology, inputs)
    parts = cut(topology, only, named=count_drops)
    pairs = pairs_of(config)
    spark = _session(inputs, parts)
    workers.check_pickles(topology.nodes)
    workers.check_workers(spark)
    counts = _counts(inputs, parts, partitions or {})
    run = _Run(topology, parts, pairs, _placed(inputs), counts, tasks or 2 * connected.parallelism(spark))
    run.count_drops = count_drops
    run.keeps_order = connected.keeps_order(spark)
    made: list[DataFrame] = []
    for part in parts:
        if say is not None:
            say(part.describe())
        made.append(run.part(part, made))
    return TwinResult(topology, parts, made)


def pairs_of(config: Settings | Mapping[str, object] | None) -> tuple[tuple[str, object], ...]:
    """Return the settings of the engines in the tasks."""
    return settings_of_tasks.pairs(config if isinstance(config, Settings) else Settings(config, environ={}))


def known(topology: Topology, inputs: Mapping[str, DataFrame]) -> None:
    """Raise `ConfigError` for an input that the topology doesn't read."""
    read = sorted({topic for node in topology.nodes for topic in topics_of(node)})
    unknown = sorted(set(inputs) - set(read))
    if unknown:
        raise ConfigError(
            f"an input is given for {', '.join(unknown)}, which the topology doesn't read",
            next_step=f"it reads {', '.join(read)}",
        )


def _session(inputs: Mapping[str, DataFrame], parts: Sequence[Part]) -> SparkSession:
    read = sorted({topic for part in parts for topic in (*part.topics, *part.globals)})
    written = {topic for part in parts for topic in part.sinks}
    missing = [topic for topic in read if topic not in inputs and topic not in written]
    if missing:
        raise ConfigError(
            f"the topology reads {', '.join(missing)}, of which no input is given",
            next_step="give a DataFrame for each source topic; an empty one if it has no records",
        )
    return next(iter(inputs.values())).sparkSession


def _counts(inputs: Mapping[str, DataFrame], parts: Sequence[Part], given: Mapping[str, int]) -> dict[str, int]:
    """Return the topics' numbers of partitions; counted only where they matter."""
    from pyspark.sql import functions as f

    matters = {topic for part in parts if part.how == PARTITIONS or part.timed for topic in part.after}
    counts = {}
    for topic, frame in inputs.items():
        if topic in given:
            counts[topic] = given[topic]
        elif topic in matters and "partition" in frame.columns:
            highest = frame.agg(f.max("partition")).first()
            counts[topic] = 1 if highest is None or highest[0] is None else int(highest[0]) + 1
        else:
            counts[topic] = 1
    return counts


def _placed(inputs: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Return each input with the columns of a part's input, and the place of each record in the order of all."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    placed = {}
    for rank, (topic, frame) in enumerate(sorted(inputs.items())):
        rows = complete(topic, frame)
        if "order" in frame.columns:
            first = f.col("order").cast("long")
        else:
            # The order of an application: of the first records of all partitions, the oldest is next.
            before = Window.partitionBy("partition").orderBy("offset")
            first = f.max("timestamp").over(before)
        place = f.concat(
            _bytes(first, 8), _bytes(f.lit(rank), 2), _bytes(f.col("partition"), 4), _bytes(f.col("offset"), 8)
        )
        placed[topic] = rows.withColumn("place", place).withColumn("name", f.lit(topic))
    return placed


def complete(topic: str, frame: DataFrame) -> DataFrame:
    """Return an input with all columns, of the right types; raise `ConfigError` if one can't be added."""
    from pyspark.sql import functions as f

    lacking = [name for name in ("key", "value", "timestamp") if name not in frame.columns]
    if lacking:
        raise ConfigError(
            f"the input of {topic} has no column {', '.join(lacking)}",
            next_step="name its columns key and value (binary) and timestamp (milliseconds)",
        )
    wrong = [name for name in ("key", "value") if dict(frame.dtypes)[name] not in {"binary", "string", "void"}]
    if wrong:
        raise ConfigError(
            f"the column {wrong[0]} of the input of {topic} is {dict(frame.dtypes)[wrong[0]]}, not binary",
            next_step="give bytes as the topology's serde reads them; text is taken as UTF-8",
        )
    rows = frame
    if "partition" not in rows.columns:
        rows = rows.withColumn("partition", f.lit(0))
    if "offset" not in rows.columns:
        if "order" not in rows.columns:
            raise ConfigError(
                f"the input of {topic} has neither offset nor order: records of one time would have no order",
                next_step="add the column offset, or order",
            )
        rows = rows.withColumn("offset", f.col("order").cast("long"))
    if "headers" not in rows.columns:
        rows = rows.withColumn("headers", f.lit(None).cast("array<struct<key: string, value: binary>>"))
    kept = [*_INPUT, "offset", *(["order"] if "order" in rows.columns else [])]
    return rows.select(*kept).withColumns(
        {
            "key": f.col("key").cast("binary"),
            "value": f.col("value").cast("binary"),
            "partition": f.col("partition").cast("int"),
        }
    )


def _bytes(number: Column, width: int) -> Column:
    """Encode a number as big-endian bytes that compare as the numbers do."""
    from pyspark.sql import functions as f

    whole = number.cast("long")
    ordered = whole.bitwiseXOR(f.lit(-(2**63))) if width == 8 else whole
    return f.unhex(f.lpad(f.hex(ordered), 2 * width, "0"))


def _quoted(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")


class _Run:
    def __init__(
        self,
        topology: Topology,
        parts: Sequence[Part],
        pairs: tuple[tuple[str, object], ...],
        placed: Mapping[str, DataFrame],
        counts: Mapping[str, int],
        tasks: int,
    ) -> None:
        self.topology = topology
        self.parts = parts
        self.pairs = pairs
        self.placed = placed
        self.counts = counts
        self.tasks = tasks
        self.count_drops = False
        self.keeps_order = True

    def part(self, part: Part, made: Sequence[DataFrame]) -> DataFrame:
        """Run one part, and keep its output."""
        from pyspark.errors import PySparkException

        wide = max((self.counts.get(topic, 1) for topic in part.after), default=1)
        faithful.check_partitions(part.how, part.timed, wide, part.number)
        tasks = {KEYS: self.tasks, PARTITIONS: wide, ONE: 1}[part.how]
        work = task.Work(
            number=part.number,
            nodes=part.nodes,
            pairs=self.pairs,
            keep_null=part.keep_null,
            sinks=part.sinks,
            dynamic=part.dynamic,
            stores=part.stores,
            batched=part.batched,
            partitions=wide if part.how == PARTITIONS else None,
            drops=self.count_drops,
            sorts=not self.keeps_order,
        )
        rows = self._shared_out(part, made, tasks, wide)
        sorted_rows = rows.repartition(tasks, "task").sortWithinPartitions("task", "place")
        out = sorted_rows.select(*task.INPUT).mapInArrow(task.runner(work), task.SPARK_SCHEMA)
        try:
            if part.how == PARTITIONS and part.keyed and wide > 1:
                self._check_keys(part)
            return connected.computed(out)
        except PySparkException as error:
            raise workers.translated_error(error) from error

    def _shared_out(self, part: Part, made: Sequence[DataFrame], tasks: int, wide: int) -> DataFrame:
        from pyspark.sql import functions as f

        meets = part.how == PARTITIONS and part.keyed and bool(part.hops_in) and wide > 1
        frames = []
        for topic in part.topics:
            if topic in self.placed:
                rows = self.placed[topic]
                frames.append(self._rows(rows, self._task(part, tasks, f.col("partition"), f.col("partition")), meets))
        hops = [frame.where(f.col("kind") == task.HOP).where(f.col("name").isin(*part.hops_in)) for frame in made]
        if part.hops_in:
            for rows in hops:
                # Records without a key stay with their source partition, which is a part of their place.
                origin = f.conv(f.substring(f.hex("place"), 21, 8), 16, 10).cast("int")
                by = f.coalesce(f.col("hash") % wide, origin % wide)
                frames.append(self._rows(rows, self._task(part, tasks, by, origin), False))
        everyone = (
            next(iter(self.placed.values())).sparkSession.range(tasks).select(f.col("id").cast("int").alias("task"))
        )
        for topic in part.globals:
            rows = self.placed[topic].withColumn("place", f.concat(f.unhex(f.lit("00")), "place"))
            frames.append(self._rows(rows.crossJoin(everyone), f.col("task"), False))
        if not frames:
            raise ConfigError(f"part {part.number} has no input", next_step="give a DataFrame for each source topic")
        return functools.reduce(lambda one, other: one.unionByName(other), frames)

    @staticmethod
    def _task(part: Part, tasks: int, by_partition: Column, keyless: Column) -> Column:
        from pyspark.sql import functions as f

        if part.how == ONE:
            return f.lit(0)
        if part.how == PARTITIONS:
            return by_partition.cast("int")
        return (
            f.when(f.col("key").isNull(), keyless % tasks)
            .otherwise(f.pmod(f.xxhash64("key"), f.lit(tasks)))
            .cast("int")
        )

    @staticmethod
    def _rows(rows: DataFrame, by: Column, hashed: bool) -> DataFrame:
        from pyspark.sql import functions as f

        return rows.select(
            by.alias("task"), "name", "key", "value", "timestamp", "headers", "place", f.lit(hashed).alias("hashed")
        )

    def _check_keys(self, part: Part) -> None:
        """Check that each key is in one partition: otherwise a task lacks some records of its keys."""
        from pyspark.sql import functions as f

        given = [self.placed[topic] for topic in part.topics if topic in self.placed]
        frames = [frame.select("key", "partition", "name") for frame in given]
        if not frames:
            return
        rows = functools.reduce(lambda one, other: one.unionByName(other), frames).where("key is not null")
        split = rows.groupBy("key").agg(f.collect_set("partition").alias("partitions"), f.min("name").alias("name"))
        found = split.where(f.size("partitions") > 1).first()
        if found is not None:
            places = ", ".join(map(str, sorted(found["partitions"])))
            raise TopologyError(
                f"the key {bytes(found['key'])!r} of {found['name']} is in the partitions {places}, and in the twin "
                f"{', '.join(part.timed)} needs all records of a key in one",
                next_step="write .repartition() behind the source",
            )
