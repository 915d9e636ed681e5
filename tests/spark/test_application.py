"""An application on Spark: `StoatFlow(..., engine="spark")`, its life cycle, results, rejections, and the command."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import shop_twin
from small_shop import SCHEMA, SINKS, Files, by_the_engine, orders, per_key, shop, users

import stoatflow as sf
from stoatflow._runtime.bridge import settings_schema
from stoatflow.cli import main
from stoatflow.errors import ConfigError, TopologyError
from stoatflow.spark import SparkOptions
from stoatflow.spark.errors import SparkUnavailableError, TwinError
from stoatflow.spark.load import load
from stoatflow.spark.twin import settings as meaning
from stoatflow.spark.twin import workers
from stoatflow.spark.unsupported import ARGUMENTS, METHODS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APP = str(Path(shop_twin.__file__))
ID = {"application.id": "shop"}


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


def batch(spark: SparkSession, topology: sf.Topology, **options: Any) -> sf.StoatFlow:
    return sf.StoatFlow(topology, ID, engine="spark", batch=True, spark=SparkOptions(session=spark, **options))


def frames(spark: SparkSession) -> dict[str, Any]:
    given = {"users": users(), "orders": orders(0, 60)}
    return {topic: spark.createDataFrame(rows, SCHEMA) for topic, rows in given.items()}


def of(frame: Any) -> dict[bytes | None, list[tuple[bytes | None, int]]]:
    return per_key([(bytes(row["key"]), bytes(row["value"]), row["timestamp"]) for row in frame.collect()])


def test_a_batch_is_a_run_like_any_other(spark: SparkSession, tmp_path: Path) -> None:
    heard: list[str] = []
    app = batch(spark, shop(), inputs=frames(spark), tasks=2, output=tmp_path)
    app.add_state_listener(lambda new, _: heard.append(str(new)))
    app.add_hook("PRE_START", lambda _: heard.append("before"))
    app.add_hook("POST_STOP", lambda _: heard.append("after"))
    assert app.spark.describe().splitlines()[1] == "part 1: orders -> large; shared out by key"
    with pytest.raises(TwinError, match="the batch is CREATED, and has no results"):
        app.spark.output("large")
    with app:
        app.wait_until(caught_up=True, timeout="120s")
        expected = by_the_engine()
        assert {topic: of(app.spark.output(topic)) for topic in SINKS} == {
            topic: per_key(expected[topic]) for topic in SINKS
        }
        assert app.spark.store("totals").count() == 2
        assert app.state is sf.State.STOPPED
    assert heard == ["before", "STARTING", "RUNNING", "STOPPED", "after"]
    assert of(spark.read.parquet(str(tmp_path / "topics" / "large"))) == per_key(expected["large"])
    assert spark.read.parquet(str(tmp_path / "stores" / "totals")).count() == 2
    with pytest.raises(TwinError, match="the application is closed, and its results with it"):
        app.spark.store("totals")


def test_a_batch_reads_the_topics_of_its_settings(spark: SparkSession, tmp_path: Path) -> None:
    """An embedded broker that no application has open; `run` ends by itself."""
    builder = sf.StreamsBuilder()
    builder.stream("orders", key=str, value=dict).group_by_key().count(store="counts")
    topics: dict[str, Any] = {"orders": shop_twin.LOAD["topics"]["orders"] | {"records": 200}}  # type: ignore[index]
    load({"seed": 1, "topics": topics}, f"embedded:{tmp_path}")
    settings = ID | {"bootstrap.servers": f"embedded:{tmp_path}"}
    app = sf.StoatFlow(builder.build(), settings, engine="spark", batch=True, spark=SparkOptions(session=spark))
    app.run()
    rows = app.spark.store("counts").collect()
    assert sum(int.from_bytes(row["value"], "big") for row in rows) == 200
    assert app.close()


def test_a_stream_catches_up_and_is_stopped(spark: SparkSession, files: Files, tmp_path: Path) -> None:
    files.write("users", users())
    files.write("orders", orders(0, 30))
    options = SparkOptions(
        session=spark,
        inputs={topic: files.read(topic) for topic in ("users", "orders")},
        output=tmp_path / "output",
        checkpoint=tmp_path / "checkpoint",
        tasks=2,
    )
    with sf.StoatFlow(shop(), ID, engine="spark", spark=options) as app:
        app.wait_until(caught_up=True, timeout="240s")
        assert app.state is sf.State.RUNNING
        files.write("orders", orders(30, 30))
        app.wait_until(caught_up=True, timeout="240s")
        expected = by_the_engine()
        assert {topic: of(app.spark.output(topic)) for topic in SINKS} == {
            topic: per_key(expected[topic]) for topic in SINKS
        }
        assert app.spark.store("totals").count() == 2
        assert sum(count for _, count in app.spark.progress()) == 66
        assert app.close("60s")
        assert app.state is sf.State.STOPPED


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Files:
    return Files(spark, tmp_path)


def stream(function: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).map_values(function).to("out", key=str, value=str)
    return builder.build()


def one(spark: SparkSession) -> dict[str, Any]:
    return {"in": spark.createDataFrame([(b"k", b"bread", 1, None, 0, 0)], SCHEMA)}


def fails(value: str) -> str:
    raise ZeroDivisionError(f"no {value}")


def test_a_failure_ends_the_application_with_its_error(spark: SparkSession) -> None:
    app = batch(spark, stream(fails), inputs=one(spark))
    with pytest.raises(TwinError, match=r"failed in a worker: .*ZeroDivisionError: no bread"), app:
        app.wait_until(caught_up=True, timeout="120s")
    assert app.state is sf.State.ERROR
    assert isinstance(app.error, TwinError)
    with pytest.raises(TwinError, match="the batch is ERROR, and has no results"):
        app.spark.output("out")


def test_dead_letters_are_dropped_and_that_is_logged(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    builder = sf.StreamsBuilder()
    tried = builder.stream("in", key=str, value=str).map_values(fails, on_error=sf.Retry(1, "1ms", then=sf.DLQ("dead")))
    tried.to("out", key=str, value=str)
    app = batch(spark, builder.build(), inputs=one(spark))
    assert "dead letters are not among the results on Spark: those of " in caplog.text
    assert "map_values" in caplog.text
    with app:
        app.wait_until(caught_up=True, timeout="120s")
        assert app.spark.topics == ("out",)
        assert app.spark.output("out").count() == 0


def sleeps(value: str) -> str:
    time.sleep(30)
    return value


def test_a_batch_that_is_closed_ends_at_once(spark: SparkSession) -> None:
    app = batch(spark, stream(sleeps), inputs=one(spark))
    app.start()
    app.wait_until("RUNNING", timeout="60s")
    began = time.monotonic()
    assert app.close("25s")
    assert time.monotonic() - began < 25
    assert (app.state, app.error) == (sf.State.STOPPED, None)
    with pytest.raises(RuntimeError, match="has ended and was waited for"):
        app.wait_until(caught_up=True)


def test_a_signal_ends_a_run_and_its_session(tmp_path: Path) -> None:
    with sf.EmbeddedBroker(tmp_path / "broker") as broker:
        broker.create_topic("in")
        broker.produce("in", "k", "bread")
    command = [sys.executable, str(Path(__file__).with_name("interrupted.py")), str(tmp_path / "broker")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline().strip() for _ in range(2)] == ["STARTING", "RUNNING"]
        process.send_signal(signal.SIGINT)
        assert process.stdout.read().split() == ["STOPPING", "STOPPED"]
        assert process.wait(60) == 0


def test_a_missing_java_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    app = sf.StoatFlow(stream(str.upper), bootstrap_servers="localhost:1", engine="spark", batch=True)
    with pytest.raises(SparkUnavailableError, match=r"no `java` is on the PATH\. Install a JDK 17"):
        app.run()


def test_options_without_meaning_are_refused_by_name() -> None:
    """Every method of the table, on an application that has not started."""
    app = sf.StoatFlow(stream(str.upper), ID, bootstrap_servers="localhost:1", engine="spark", batch=True)
    calls: dict[str, list[Any]] = {
        "store()": [lambda: app.store("s")],
        "snapshot(), sql()": [lambda: app.snapshot().__enter__(), lambda: app.sql("select 1")],
        "to_arrow(), arrow_batches()": [lambda: app.to_arrow("s"), lambda: app.arrow_batches("s")],
        "metrics()": [app.metrics],
        "lag()": [app.lag],
        "thread_activity()": [lambda: app.thread_activity(1)],
        "parked()": [lambda: app.parked("s")],
        "pause()": [app.pause],
        "resume()": [app.resume],
        "clean_up()": [app.clean_up],
        "set_uncaught_exception_handler()": [lambda: app.set_uncaught_exception_handler(lambda _: "SHUTDOWN_CLIENT")],
    }
    assert set(calls) == set(METHODS)
    for method, each in calls.items():
        for call in each:
            with pytest.raises(ConfigError) as raised:
                call()
            assert str(raised.value) == f"{method}: refused on Spark. Next: {METHODS[method]}"
    assert (app.is_paused, app.admin_url, app.state) == (False, None, sf.State.CREATED)
    for argument, text in ARGUMENTS.items():
        with pytest.raises(ConfigError) as raised:
            sf.StoatFlow(stream(str.upper), ID, engine="spark", **{argument.removesuffix("="): print})
        assert str(raised.value) == f"{argument}: refused on Spark. Next: {text}"


@pytest.mark.parametrize(
    ("settings", "options", "message"),
    [
        ({}, {"checkpoint": "c"}, "there is no broker for in. Next: set bootstrap.servers"),
        ({"bootstrap.servers": "localhost:1"}, {}, "a stream on Spark needs a folder for its state"),
        ({"bootstrap.servers": "embedded:x"}, {"checkpoint": "c"}, "embedded:x is an embedded broker"),
        (
            {"bootstrap.servers": "localhost:1", "processing.guarantee": "exactly_once_v2"},
            {"checkpoint": "c"},
            "Spark writes topics at least once. Next: set at_least_once",
        ),
        ({"time.semantics": "watermark"}, {"checkpoint": "c"}, "the watermark is the least of all partitions"),
        ({"default.value.serde": "json"}, {"checkpoint": "c"}, "default.value.serde is refused on Spark"),
        ({"auto.offset.reset": "latest"}, {"checkpoint": "c"}, "auto.offset.reset is refused on Spark"),
        ({}, {"checkpoint": "c", "inputs": {"in": "in.parquet"}}, "in is a file, which a stream doesn't follow"),
        ({"lanes.count": 4, "config.strict": True}, {"checkpoint": "c"}, "lanes.count has no effect on Spark"),
    ],
)
def test_settings_and_options_are_checked_first(
    settings: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises((ConfigError, TopologyError, TwinError)) as raised:
        sf.StoatFlow(stream(str.upper), ID | settings, engine="spark", spark=SparkOptions(**options))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"checkpoint": "c"}, "checkpoint is of a stream. Next: leave it out, or leave out batch=True"),
        ({"output": print}, "which a batch doesn't call. Next: name a folder"),
    ],
)
def test_a_batch_has_no_trigger(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        sf.StoatFlow(stream(str.upper), ID, engine="spark", batch=True, spark=SparkOptions(**options))
    assert message in str(raised.value)


def test_options_of_spark_are_of_spark() -> None:
    for given in ({"batch": True}, {"spark": SparkOptions()}):
        with pytest.raises(ConfigError, match='is of engine="spark"'):
            sf.StoatFlow(stream(str.upper), ID, **given)  # type: ignore[arg-type]  # either of them
    with pytest.raises(ConfigError, match="there is no engine 'flink'"):
        sf.StoatFlow(stream(str.upper), ID, engine="flink")  # type: ignore[arg-type]
    app = sf.StoatFlow(stream(str.upper), ID, bootstrap_servers="localhost:1")
    with pytest.raises(ConfigError, match="this application doesn't run on Spark"):
        _ = app.spark


def wrapper(node: sf.NodeInfo, next: Any) -> Any:  # noqa: A002
    return next


def test_a_wrapper_is_refused() -> None:
    builder = sf.StreamsBuilder(wrapper=wrapper)
    builder.stream("in", key=str, value=str).map_values(str.upper).to("out", key=str, value=str)
    with pytest.raises(TopologyError, match="wrap them where they are written"):
        sf.StoatFlow(builder.build(), ID, engine="spark", batch=True)


def test_the_table_has_every_setting(caplog: pytest.LogCaptureFixture) -> None:
    assert list(meaning.SETTINGS) == [name for name, *_ in settings_schema()]
    settings = ID | {"bootstrap.servers": "localhost:1", "lanes.count": 4, "ssl.truststore.location": "ca.pem"}
    with caplog.at_level(logging.INFO, "stoatflow"):
        sf.StoatFlow(stream(str.upper), settings, engine="spark", batch=True)
    assert "lanes.count has no effect on Spark: Spark's tasks share the work" in caplog.text
    given = sf.Settings(settings, environ={})
    assert meaning.client(given) == {"ssl.truststore.location": "ca.pem"}
    assert {"lanes.count", "ssl.truststore.location"}.isdisjoint(dict(meaning.pairs(given)))


def test_the_command_runs_what_the_application_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A `StoatFlow` of a file, with its settings; a builder; `--check` starts nothing."""
    monkeypatch.setattr("stoatflow.spark.session.local_session", lambda **_: nullcontext(spark))
    with sf.EmbeddedBroker(tmp_path / "broker") as broker:
        broker.create_topic("in")
        broker.produce("in", "k", "bread")
    file = tmp_path / "shouting.py"
    file.write_text(
        "import stoatflow as sf\n"
        "builder = sf.StreamsBuilder()\n"
        "builder.stream('in', key=str, value=str).map_values(str.upper).to('out', key=str, value=str)\n"
        f"app = sf.StoatFlow(builder.build(), application_id='a', bootstrap_servers='embedded:{tmp_path / 'broker'}')\n"
    )
    batched = ["--engine", "spark", "--batch"]
    assert main(["run", str(file), *batched]) == 0
    assert "topic out: 1 records" in capsys.readouterr().out
    assert main(["run", f"{file}:builder", *batched, "--bootstrap", "localhost:1", "--check"]) == 0
    assert capsys.readouterr().out == "part 0: in -> out; shared out by key\n"
    assert main(["run", f"{file}:builder", *batched, "--bootstrap", "localhost:1", "--check", "--json"]) == 0
    (part,) = json.loads(capsys.readouterr().out)["parts"]
    assert (part["reads"], part["writes"], part["tasks"]) == (["in"], ["out"], "keys")
    assert main(["run", str(file), *batched, "--application-id", "b"]) == 2
    assert "is a StoatFlow, which has its settings already" in capsys.readouterr().err
    assert main(["run", APP, *batched, "--set", "time.semantics=watermark"]) == 2
    assert "the watermark is the least of all partitions" in capsys.readouterr().err
