"""Topologies on a server of Spark Connect: `on_connect.py sail|nothing-kept|guide|spark FOLDER`.

`spark` is PySpark's own, `guide` runs what the guide says about Sail.

In its own process: in one process PySpark's functions create columns of one kind, for Spark Connect or for its JVM.
Prints what is wrong as JSON: nothing, if all is as recorded.
"""

from __future__ import annotations

import json
import os
import re
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import twin_vectors
from pyarrow import parquet
from small_shop import SCHEMA, SINKS, by_the_engine, orders, per_key, shop, users
from test_guide import GUIDE, blocks

import stoatflow as sf
from conformance import runner
from stoatflow.errors import ConfigError
from stoatflow.spark import SparkOptions, connected
from stoatflow.spark.audit.reconciling import reconcile
from stoatflow.spark.errors import TwinError
from stoatflow.spark.twin.running import run_batch
from stoatflow.spark.twin.stored import read_store
from stoatflow.spark.twin.streaming import run_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DIFFERS = Path(__file__).with_name("twin_differs.txt")
VECTORS = {
    "sail": [
        "filter_basic/hand", "map_swap/seed1", "word_count/hand", "tumbling_group_by/hand", "hopping_count/hand",
        "session_count/hand", "suppress_tumbling/hand", "ss_outer_grace/hand", "ss_left_rekeyed/hand",
        "st_rekeyed/seed1", "tt_inner/hand", "fk_inner/hand", "st_two_tables/hand", "table_group_count/hand",
        "proc_running_total/hand", "dynamic_topic/hand",
    ],
    "spark": ["word_count/hand", "ss_outer_grace/hand", "fk_inner/hand"],
}  # fmt: skip


SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.connect.grpc.binding.address": "127.0.0.1",
}


@contextmanager
def sail(kept: Path | None) -> Iterator[SparkSession]:
    """Start Sail in this process."""
    os.environ.pop("SAIL_EXECUTION__CHECKPOINT__PATH", None)
    if kept is not None:
        os.environ["SAIL_EXECUTION__CHECKPOINT__PATH"] = kept.as_uri()
    from pysail.spark import SparkConnectServer
    from pyspark.sql import SparkSession

    server = SparkConnectServer()
    server.start()
    host, port = server.listening_address
    session = SparkSession.builder.remote(f"sc://{host}:{port}").getOrCreate()
    yield session
    session.stop()
    server.stop()


@contextmanager
def own() -> Iterator[SparkSession]:
    """Start the server that PySpark includes, in a JVM."""
    # Then the server takes a free port, which the client learns.
    os.environ["SPARK_TESTING"] = "1"
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote("local[1]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def as_recorded(spark: SparkSession, name: str) -> list[str]:
    """Run a vector of Kafka Streams."""
    (case,) = (case for case in runner.cases() if case.name == name)
    return twin_vectors.compare_case(case, lambda case, topology: twin_vectors.run_on_spark(spark, case, topology))


def application(spark: SparkSession) -> list[str]:
    """Run an application to its end, as `StoatFlow` does."""
    given = {"users": users(), "orders": orders(0, 60)}
    inputs = {topic: spark.createDataFrame(rows, SCHEMA) for topic, rows in given.items()}
    options = SparkOptions(session=spark, inputs=inputs, tasks=2)
    with sf.StoatFlow(shop(), {"application.id": "shop"}, engine="spark", batch=True, spark=options) as app:
        app.wait_until(caught_up=True, timeout="2m")
        expected = by_the_engine()
        wrong = [topic for topic in SINKS if _of(app.spark.output(topic)) != per_key(expected[topic])]
        return wrong + ([] if app.spark.store("totals").count() == 2 else ["totals"])


def _of(frame: Any) -> dict[bytes | None, list[tuple[bytes | None, int]]]:
    return per_key([(bytes(row["key"]), bytes(row["value"]), row["timestamp"]) for row in frame.collect()])


def files(spark: SparkSession, folder: Path) -> list[str]:
    """Read an embedded broker, and Parquet files; write Parquet files."""
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).map_values(sf.value.str.upper()).to("out", value=str)
    with sf.EmbeddedBroker(folder / "broker") as broker:
        broker.create_topic("in")
        broker.produce("in", "a", "tea", timestamp=1_000)
    rows = {"key": ["a"], "value": ["tea"], "timestamp": [1_000], "offset": [0]}
    parquet.write_table(pa.table(rows), folder / "in.parquet")
    found: list[list[bytes]] = []
    for name, inputs in (("topics", None), ("paths", {"in": str(folder / "in.parquet")})):
        settings = {"application.id": "files", "bootstrap.servers": f"embedded:{folder / 'broker'}"}
        options = SparkOptions(session=spark, inputs=inputs or {}, output=folder / name)
        with sf.StoatFlow(builder.build(), settings, engine="spark", batch=True, spark=options) as app:
            app.wait_until(caught_up=True, timeout="2m")
        found.append(parquet.read_table(folder / name / "topics" / "out")["value"].to_pylist())
    return [] if found == [[b"TEA"], [b"TEA"]] else [f"{found}"]


def limits(spark: SparkSession) -> list[str]:
    """Limits of Sail that the guide lists. Once Sail supports one, the guide and its replacement here can go."""
    lacks = {
        "add artifacts": lambda: spark.addArtifacts(__file__, pyfile=True),
        "No data source found for: kafka": lambda: spark.read.format("kafka").load().count(),
    }
    has = [what for what, call in lacks.items() if not _fails(what, call)]
    has += ["the order of sorted rows"] if connected.keeps_order(spark) else []
    return has + (["persist"] if spark.range(1).persist().storageLevel.useDisk else [])


def _fails(what: str, call: Callable[[], object]) -> bool:
    try:
        call()
    except Exception as error:  # those of its client have many classes
        return what in str(error)
    return False


def once(spark: SparkSession, marks: Path) -> list[str]:
    """A part is computed once, however often its results are read."""
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).peek(lambda key, _: (marks / f"{key}-{uuid.uuid4()}").touch()).to("out")
    schema = "key string, value string, timestamp long, offset long"
    given = spark.createDataFrame([("a", "1", 1, 0), ("b", "2", 2, 1)], schema)
    with run_batch(builder.build(), {"in": given}, tasks=1) as result:
        found = [result.output("out").count(), result.output("out").count(), len(list(marks.iterdir()))]
    return [] if found == [2, 2, 2] else [f"two times two records, by so many calls: {found}"]


def fails(spark: SparkSession) -> list[str]:
    """An exception of a function arrives as a readable message."""
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).map_values(lambda value: {}[value]).to("out", value=str)
    given = spark.createDataFrame([("a", "tea", 1, 0)], "key string, value string, timestamp long, offset long")
    return _says("the batch failed in a worker: .*tea", lambda: run_batch(builder.build(), {"in": given}, tasks=1))


def refused(spark: SparkSession) -> list[str]:
    """Features that need the JVM are rejected before anything starts."""
    topology = shop()
    settings = {"application.id": "shop", "bootstrap.servers": "localhost:9092"}
    stream = SparkOptions(session=spark, checkpoint="checkpoint")
    topics = SparkOptions(session=spark)
    return [
        *_says(
            "a stream needs Spark's JVM.*batch=True",
            lambda: sf.StoatFlow(topology, settings, engine="spark", spark=stream),
        ),
        *_says(
            "a stream needs Spark's JVM.*batch=True", lambda: run_stream(spark, topology, {}, Path("o"), checkpoint="c")
        ),
        *_says("the checkpoint of a stream needs", lambda: read_store(spark, topology, "checkpoint", "totals")),
        *_says("a reconciliation needs Spark's JVM", lambda: reconcile(spark, topology, "localhost:9092")),
        *_says(
            "a topic of a broker needs Spark's JVM.*inputs=",
            lambda: sf.StoatFlow(topology, settings, engine="spark", batch=True, spark=topics),
        ),
    ]


def nothing_is_kept(spark: SparkSession) -> list[str]:
    """Without a folder for checkpoints Sail would recompute everything for each result."""
    given = spark.createDataFrame(orders(0, 1), SCHEMA)
    topology = shop()
    return _says("SAIL_EXECUTION__CHECKPOINT__PATH", lambda: run_batch(topology, {"orders": given, "users": given}))


def _says(what: str, call: Callable[[], object]) -> list[str]:
    try:
        call()
    except (ConfigError, TwinError) as error:
        return [] if re.search(what, str(error), re.DOTALL) else [f"{error} instead of {what}"]
    return [f"no error instead of {what}"]


def guide() -> None:
    """Run the block of the guide."""
    (block,) = (block for block in blocks(GUIDE / "outgrow-one-machine.md") if "pysail" in block)
    # The page is this repository's own.
    exec(compile(block, "outgrow-one-machine.md", "exec"), {"__name__": "__main__"})  # noqa: S102


def vectors(server: str) -> list[str]:
    """The vectors to run: on Sail all that are the same, if requested."""
    if server != "sail" or os.environ.get("STOATFLOW_TEST_TWIN") != "all":
        return VECTORS[server]
    differs = {line.partition(":")[0] for line in DIFFERS.read_text("utf-8").splitlines()}
    return [case.name for case in runner.cases() if case.name not in differs]


def main() -> None:
    """Run the requested parts."""
    server, folder = sys.argv[1], Path(sys.argv[2])
    wrong: dict[str, list[str]] = {}
    if server == "nothing-kept":
        with sail(None) as spark:
            wrong["nothing is kept"] = nothing_is_kept(spark)
    elif server == "guide":
        guide()
    else:
        (folder / "marks").mkdir()
        with own() if server == "spark" else sail(folder / "kept") as spark:
            wrong |= {name: as_recorded(spark, name) for name in vectors(server)}
            wrong["once"] = once(spark, folder / "marks")
            wrong["files"] = files(spark, folder)
            wrong["limits"] = limits(spark) if server == "sail" else []
            wrong |= {check.__name__: check(spark) for check in (application, fails, refused)}
    print(json.dumps({name: found for name, found in wrong.items() if found}))  # noqa: T201


if __name__ == "__main__":
    main()
