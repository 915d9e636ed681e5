"""The batch twin: where topologies are cut, the results, what is rejected and how it fails."""

from __future__ import annotations

import importlib
import json
import os
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import shop_twin
import twin_vectors

import stoatflow as sf
from conformance import runner
from stoatflow._runtime.bridge import node_kinds
from stoatflow.cli import main
from stoatflow.errors import ConfigError, TopologyError
from stoatflow.spark.errors import SparkUnavailableError, TwinError
from stoatflow.spark.twin import faithful, workers
from stoatflow.spark.twin.parts import cut
from stoatflow.spark.twin.running import run_batch
from stoatflow.spark.twin.task import murmur2
from stoatflow.testing import TopologyTestDriver

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ALL = runner.cases()
DIFFERS = {
    line.partition(":")[0]
    for line in (Path(__file__).parent / "twin_differs.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
}
# Each takes a fraction of a second, mostly to start an engine for each task.
EVERY = 1 if os.environ.get("STOATFLOW_TEST_TWIN") == "all" else 9
SAMPLE = [case for at, case in enumerate(ALL) if at % EVERY == 0]
ON_SPARK = ["word_count/hand", "st_rekeyed/seed1", "tumbling_group_by/hand", "fk_inner/hand", "ss_outer_grace/hand"]


def test_vectors_that_differ_are_listed_by_name() -> None:
    assert {case.name for case in ALL} >= DIFFERS
    assert 1 - len(DIFFERS) / len(ALL) >= 0.94


@pytest.mark.parametrize("case", [case for case in SAMPLE if case.name not in DIFFERS], ids=lambda case: case.name)
def test_vectors_are_the_same_part_by_part(case: runner.Case) -> None:
    assert twin_vectors.compare_case(case, twin_vectors.run_here) == []


@pytest.mark.parametrize("case", [case for case in SAMPLE if case.name in DIFFERS], ids=lambda case: case.name)
def test_listed_vectors_differ(case: runner.Case) -> None:
    assert twin_vectors.compare_case(case, twin_vectors.run_here)


@pytest.mark.parametrize("case", [case for case in ALL if case.name in ON_SPARK], ids=lambda case: case.name)
def test_vectors_are_the_same_on_spark(case: runner.Case, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    # Checked once, in its own test.
    monkeypatch.setattr(workers, "check_workers", lambda _: None)
    assert (
        twin_vectors.compare_case(case, lambda case, topology: twin_vectors.run_on_spark(spark, case, topology)) == []
    )


def test_the_table_has_every_operator() -> None:
    assert set(faithful.OPERATORS) == set(node_kinds())


def test_the_shop_is_split_where_keys_change() -> None:
    parts = [(part.topics, part.hops_in, part.sinks, part.how) for part in cut(shop_twin.topology)]
    assert parts == [
        (("users", "orders"), (), (), "keys"),
        (("orders",), (), ("large",), "keys"),
        (("orders",), (), ("per-minute",), "partitions"),
        ((), ("twin-hop-0",), ("per-region",), "keys"),
    ]


def test_a_shared_source_of_two_results_does_not_force_one_task() -> None:
    """The re-grouped table needs all records in one task, the windows don't, though both come from one table."""
    builder = sf.StreamsBuilder()
    users = builder.table("users", key=str, value=str, store="users")
    clicks = builder.stream("clicks", key=str, value=str).join(users, lambda click, user: user)
    by_city = users.group_by(lambda key, city: (city, key), grouped=sf.Grouped(key=str, value=str))
    by_city.count(store="per-city").to_stream().to("cities", key=str, value=int)
    minutes = clicks.group_by_key(key=str, value=str).windowed_by(sf.TimeWindows("1m", grace="0s"))
    minutes.count(store="minutes")
    parts = {part.stores or part.sinks: part.how for part in cut(builder.build())}
    assert parts == {("users",): "keys", ("per-city",): "one", ("minutes",): "partitions"}


def test_a_branch_is_in_one_part_with_earlier_branches() -> None:
    """Otherwise the records of earlier branches would also reach the default branch."""
    builder = sf.StreamsBuilder()
    split = builder.stream("in", key=str, value=str).split()
    split = split.branch(sf.value == "a", sf.Branched("a", consumer=count_minutes))
    split.default_branch(sf.Branched("rest", consumer=lambda rest: rest.to("rest")))
    for only in (None, ["rest"]):
        (part,) = (part for part in cut(builder.build(), only) if part.sinks)
        assert (part.how, [node.op for node in part.nodes].count("branch")) == ("keys", 2)


def count_minutes(records: sf.KStream[str, str]) -> None:
    records.group_by_key().windowed_by(sf.TimeWindows("1m", grace="0s")).count(store="as")


def test_describe_shows_the_parts_and_the_differences(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", str(Path(shop_twin.__file__)), "--engine", "spark"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "part 1: orders -> large; shared out by key"
    assert lines[2].startswith(
        "part 2: orders -> per-minute; keeps minutes; one task per partition, for the sake of win"
    )
    assert "windowed_by differs: one Spark task for each partition" in lines[-1]
    assert main(["describe", str(Path(shop_twin.__file__)), "--engine", "spark", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parts"][1]["writes"] == ["large"]
    assert found["parts"][2]["tasks"] == "partitions"
    assert found["differs"][-1]["operator"] == "windowed_by"


def stream(build: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    build(builder, builder.stream("in", key=str, value=str))
    return builder.build()


async def ask(value: str) -> str:
    return value


class Keeps(sf.ContextualProcessor[str, str, str, str]):
    def process(self, record: sf.Record[str, str]) -> None:
        self.context.state_store("seen").put(record.key, record.value)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda b, s: s.map_values(ask).to("out", value=str), "async functions: what a service answers"),
        (
            lambda b, s: b.scheduled("tick", every="1s").to("ticks", key=str, value=dict),
            "scheduled: a batch has no clock",
        ),
        (
            lambda b, s: s.offload("q", "a", response_value=str, joiner=lambda v, a: a, name="ask").to(
                "out", value=str
            ),
            "offload: another process answers",
        ),
        (lambda b, s: b.stream(topics(), key=str, value=str).to("out"), "topics by a pattern"),
        (
            lambda b, s: b.stream("w", key=str, value=str, timestamp=sf.TimestampExtractors.WALLCLOCK).to("out"),
            "wall-clock timestamps: the time at which the batch runs",
        ),
        (lambda b, s: b.stream("l", key=str, value=str, late="drop").to("out"), "late=: a late policy goes by"),
        (
            lambda b, s: b.table("t", key=str, value=str, store=sf.Materialized("t", ttl="1h")),
            "ttl=: a row expires with a commit of the engine",
        ),
        (
            lambda b, s: (
                b.add_state_store(sf.Stores.key_value("seen", key=str, value=str, ttl="1h"))
                and s.process(Keeps, stores=["seen"])
            ),
            "ttl=: a row expires with a commit of the engine",
        ),
    ],
)
def test_refusals_name_the_operator_and_an_alternative(build: Any, message: str) -> None:
    with pytest.raises(TopologyError) as raised:
        faithful.check(stream(build))
    assert message in str(raised.value)
    assert "test_twin.py:" in str(raised.value)
    assert "docs/reference/spark.md" in str(raised.value)


def topics() -> Any:
    import re

    return re.compile("in-.*")


def test_a_foreign_key_join_beside_windows_is_refused_with_more_than_one_partition() -> None:
    faithful.check_partitions("one", ("windowed_by",), 1, 0)
    with pytest.raises(TopologyError, match=r"windowed_by beside a table.group_by or a foreign-key join"):
        faithful.check_partitions("one", ("windowed_by",), 2, 0)


def frame(spark: SparkSession, rows: list[tuple[Any, ...]], extra: str = "") -> DataFrame:
    return spark.createDataFrame(rows, f"partition int, offset long, key string, value string, timestamp long{extra}")


def count_per_minute() -> sf.Topology:
    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=str, value=str)
    source.group_by_key().windowed_by(sf.TimeWindows("1m", grace="0s")).count(store="minutes")
    return builder.build()


def test_each_partition_has_its_own_time(spark: SparkSession) -> None:
    """A partition that is an hour ahead makes no record late in another, as in the engine and in Kafka Streams."""
    keys = {murmur2(key.encode()) % 2: key for key in ("a", "b", "c", "d")}
    rows = [(1, n, keys[1], "x", 3_600_000 + n) for n in range(5)]
    rows += [(0, n, keys[0], "x", 70_000 * n) for n in range(5)] + [(0, 5, keys[0], "late", 0)]
    with run_batch(count_per_minute(), {"in": frame(spark, rows)}) as result:
        found = {(row["key"].decode(), row["start"]): row["value"][-1] for row in result.store("minutes").collect()}
        assert result.parts[0].how == "partitions"
    assert found == {(keys[1], 3_600_000): 5, (keys[0], 240_000): 1}


def test_a_key_in_two_partitions_is_refused_where_time_matters(spark: SparkSession) -> None:
    rows = [(p, n, "k", "x", n) for p in range(2) for n in range(3)]
    with pytest.raises(TopologyError, match=r"the key b'k' of in is in the partitions 0, 1.*repartition"):
        run_batch(count_per_minute(), {"in": frame(spark, rows)})


@dataclass
class Order:
    customer: str
    total: int


def doubled(order: Order) -> Order:
    return Order(order.customer, order.total * 2)


def add(_key: str, order: Order, so_far: Order) -> Order:
    return Order(order.customer, so_far.total + order.total)


def no_order() -> Order:
    return Order("", 0)


def test_typed_values_are_the_same(spark: SparkSession) -> None:
    """Across a shuffle, too: each worker makes its own codec."""
    builder = sf.StreamsBuilder()
    orders = builder.stream("in", key=str, value=Order).filter(sf.value["total"] > 1).map_values(doubled)
    by_customer = orders.group_by(sf.value["customer"], grouped=sf.Grouped(key=str, value=Order))
    by_customer.aggregate(no_order, add, store=sf.Materialized("sums", key=str, value=Order))
    records = [(f"o{n}", Order("ab"[n % 2], n)) for n in range(6)]
    topology = builder.build()
    rows = [(0, n, key, json.dumps(asdict(order)), n) for n, (key, order) in enumerate(records)]
    with run_batch(topology, {"in": frame(spark, rows)}) as result:
        found = {row["key"].decode(): json.loads(row["value"]) for row in result.store("sums").collect()}
    with TopologyTestDriver(topology) as driver:
        driver.input("in", str, Order).pipe_all(records)
        expected = {key: asdict(order) for key, order in driver.store("sums").all().items()}
    assert found == expected == {"a": {"customer": "a", "total": 12}, "b": {"customer": "b", "total": 16}}


@pytest.mark.parametrize("windows", [sf.TimeWindows("10ms", grace="1s"), sf.SessionWindows("10ms", grace="1s")])
def test_the_parts_of_windowed_keys_are_the_same(windows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Across a shuffle by the key within, too."""
    builder = sf.StreamsBuilder()
    counts = builder.stream("in", key=str, value=str).group_by_key().windowed_by(windows).count(store="counts")
    rows = counts.to_stream().filter(sf.key.window.end > 0).map_values(sf.key.window.end - sf.key.window.start)
    by_key = rows.group_by(sf.key.key, grouped=sf.Grouped(key=str, value=int))
    by_key.reduce(lambda old, new: old + new, store="lengths")
    topology = builder.build()
    records = [("ab"[n % 3 % 2], "x", n * 4) for n in range(12)]
    inputs = [dict(zip(("key", "value", "timestamp"), record, strict=True), topic="in") for record in records]
    case: Any = SimpleNamespace(data={"topics": {"in": {"key": "string", "value": "string"}}, "inputs": inputs})
    settings = {"application.id": "twin", "bootstrap.servers": "embedded:", "ensure.explicit.naming": False}
    monkeypatch.setattr(runner, "config", lambda _: settings)
    made = [row for row in twin_vectors.run_here(case, topology) if row.name == "lengths"]
    with TopologyTestDriver(topology) as driver:
        for key, value, timestamp in records:
            driver.input("in", str, str).pipe(key, value, timestamp=timestamp)
        expected = driver.store("lengths").all()
    assert {(row.key or b"").decode(): int.from_bytes(row.value or b"", "big") for row in made} == expected
    assert set(expected) == {"a", "b"}


def locked() -> Any:
    lock = threading.Lock()

    def holds(value: str) -> str:
        with lock:
            return value

    return holds


def test_a_function_that_can_not_be_pickled_is_named(spark: SparkSession) -> None:
    topology = stream(lambda _, s: s.map_values(locked()).to("out", key=str, value=str))
    with pytest.raises(TwinError, match=r"test_twin.py:\d+ holds \(map_values\) can't be pickled.*lock"):
        run_batch(topology, {"in": frame(spark, [])})


def fails(value: str) -> str:
    raise ZeroDivisionError(f"no {value}")


def test_a_failing_function_is_named_with_its_error(spark: SparkSession) -> None:
    topology = stream(lambda _, s: s.map_values(fails).to("out", key=str, value=str))
    with pytest.raises(TwinError, match=r"the batch failed in a worker: .*ZeroDivisionError: no bread"):
        run_batch(topology, {"in": frame(spark, [(0, 0, "k", "bread", 1)])})


def test_a_worker_without_the_wheel_is_an_error(spark: SparkSession) -> None:
    workers.check_workers(spark)
    with pytest.raises(
        SparkUnavailableError, match=r"a worker .* has no stoatflow_of_tomorrow. Install the same wheel"
    ):
        workers.check_workers(spark, "stoatflow_of_tomorrow")


def test_inputs_are_checked_first(spark: SparkSession) -> None:
    topology = count_per_minute()
    with pytest.raises(ConfigError, match="reads in, of which no input is given"):
        run_batch(topology, {})
    with pytest.raises(ConfigError, match="for other, which the topology doesn't read"):
        run_batch(topology, {"in": frame(spark, []), "other": frame(spark, [])})
    with pytest.raises(ConfigError, match="has no column value"):
        run_batch(topology, {"in": frame(spark, []).drop("value")})
    with pytest.raises(ConfigError, match="neither offset nor order"):
        run_batch(topology, {"in": frame(spark, []).drop("offset")})
    with pytest.raises(ConfigError, match="column key of the input of in is bigint"):
        run_batch(topology, {"in": frame(spark, []).selectExpr("offset as key", "value", "timestamp", "offset")})
    with pytest.raises(TopologyError, match="the watermark is the least of all partitions"):
        run_batch(topology, {"in": frame(spark, [])}, config={"time.semantics": "watermark"})


def test_a_module_that_workers_lack_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text("def loud(value: str) -> str:\n    return value.upper()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    loud = importlib.import_module("only_here").loud
    topology = stream(lambda _, s: s.map_values(loud).to("out", key=str, value=str))
    with pytest.raises(TwinError, match=r"a worker can't import only_here, .*addPyFile"):
        run_batch(topology, {"in": frame(spark, [(0, 0, "k", "bread", 1)])})
