"""From topic to verdict and back, through the embedded broker's contract: bytes, files, commands, exit codes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from stoatflow.spark import embedded, load, reconcile
from stoatflow.spark.errors import TopicError
from stoatflow.spark.report import Fault

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

Broker = type[Any]
Count = Callable[[list[str], int], list[tuple[int, int, "str | None", "int | None"]]]


def encode(value: int | None) -> bytes | None:
    """Encode as Kafka's LongSerializer does."""
    return None if value is None else value.to_bytes(8, "big", signed=True)


@pytest.fixture
def count_words(broker_class: Broker, word_count: Count) -> Callable[[Path], None]:
    """Return a correct word count from topic ``lines`` to topic ``counts`` of a broker, in plain Python."""

    def run(path: Path) -> None:
        with broker_class(str(path)) as broker:
            updates = word_count([value.decode() for *_, value, _ in broker.read("lines")], 2)
            broker.create_topic("counts", 2)
            broker.produce_many("counts", [(p, (key or "").encode(), encode(value), 0) for p, _, key, value in updates])

    return run


def test_rows_arrive_complete_and_in_order(spark: SparkSession, broker_class: Broker) -> None:
    df = load.lines(spark, 1000, 100, 5, 3, keys=4, tasks=7)
    seen: list[int] = []
    assert load.to_broker(df, "embedded:/a", "lines", progress=seen.append) == 1000
    assert seen == [1000]
    with broker_class("/a") as broker:
        stored = list(broker.read("lines"))
    expected = sorted((tuple(row) for row in df.collect()), key=lambda row: (row[0], row[3]))
    assert [(p, k.decode(), v.decode(), t) for p, _, k, v, t in stored] == expected
    assert [o for p, o, *_ in stored if p == 2] == list(range(333))


def test_a_topic_with_too_few_partitions_is_refused(spark: SparkSession, broker_class: Broker) -> None:
    with broker_class("/a") as broker:
        broker.create_topic("lines", 1)
    with pytest.raises(TopicError, match=r"has 1 partition\(s\), 3 are needed"):
        load.to_broker(load.lines(spark, 10, partitions=3), "embedded:/a", "lines")


def test_a_broker_in_use_is_named_with_the_next_step(spark: SparkSession, broker_class: Broker) -> None:
    with broker_class("/a"), pytest.raises(TopicError, match="close that first"):
        load.to_broker(load.lines(spark, 10), "embedded:/a", "lines")


def test_every_byte_survives_the_dump(spark: SparkSession, broker_class: Broker, tmp_path: Path) -> None:
    odd = [None, b"", b"-", b"\x00", b"\xff\xfe", b"\t\n\r\"'\\x", bytes(range(256)) * 100]
    with broker_class("/a") as broker:
        broker.create_topic("odd", 2)
        broker.produce_many("odd", [(n % 2, key, value, -n) for n, key in enumerate(odd) for value in odd])
        stored = sorted(broker.read("odd"), key=lambda record: record[:2])
        files = embedded.dump(broker, ["odd", "odd"], tmp_path)
    rows = embedded.read_dump(spark, files["odd"]).orderBy("partition", "offset").collect()
    back = [tuple(bytes(x) if isinstance(x, bytearray) else x for x in row) for row in rows]
    assert back == stored


def test_long_values_are_kafkas(spark: SparkSession) -> None:
    values = [1, 0, -1, 255, 2**63 - 1, -(2**63)]
    raw = [*map(encode, values), None, b"", b"\x01", b"123456789"]
    records = spark.createDataFrame([(0, n, b"k", v) for n, v in enumerate(raw)], RECORDS)
    decoded = [row["value"] for row in reconcile.decode_updates(records).orderBy("offset").collect()]
    assert decoded == [*values, None, None, None, None]


def test_string_values_are_digits(spark: SparkSession) -> None:
    records = spark.createDataFrame([(0, n, b"k", v) for n, v in enumerate([b"17", b"x", None])], RECORDS)
    decoded = [row["value"] for row in reconcile.decode_updates(records, "string").orderBy("offset").collect()]
    assert decoded == [17, None, None]


def test_topics_of_an_embedded_broker_are_reconciled(
    spark: SparkSession, broker_class: Broker, count_words: Callable[[Path], None], tmp_path: Path
) -> None:
    address = f"embedded:{tmp_path}"
    load.to_broker(load.lines(spark, 200, 30, partitions=3), address, "lines")
    count_words(tmp_path)
    good = reconcile.reconcile_topics(spark, address, "lines", "counts", every_update=True)
    assert good.ok, good.render()
    assert good.input_records == 200
    assert good.output_keys == 30
    with broker_class(str(tmp_path)) as broker:
        broker.produce_many("counts", [(0, b"word00001", encode(1), 0), (1, b"ferret", b"?", 0)])
    bad = reconcile.reconcile_topics(spark, address, "lines", "counts", every_update=True)
    assert bad.faults[Fault.EXTRA_WORD] == bad.faults[Fault.BAD_VALUE] == 1
    assert bad.duplicated == 1


@pytest.fixture
def shared_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the commands use the session of the tests, and leave it open."""

    def session(**_: object) -> contextlib.AbstractContextManager[SparkSession]:
        return contextlib.nullcontext(spark)

    monkeypatch.setattr(load, "local_session", session)
    monkeypatch.setattr(reconcile, "local_session", session)


@pytest.mark.usefixtures("shared_session")
def test_the_commands_and_their_exit_codes(
    broker_class: Broker, count_words: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--bootstrap", f"embedded:{tmp_path}"]
    loading = [*where, "--topic", "lines", "--records", "1_000", "--seed", "9", "--partitions", "2"]
    assert load.main(loading) == 0
    out, err = capsys.readouterr()
    assert out.startswith("loaded 1,000 records into topic lines (2 partition(s), seed 9) in ")
    assert "1,000 of 1,000 records  100%" in err

    count_words(tmp_path)
    checking = [*where, "--input", "lines", "--output", "counts"]
    assert reconcile.main([*checking, "--every-update"]) == 0
    assert "OK: nothing lost, nothing counted twice" in capsys.readouterr().out

    with broker_class(str(tmp_path)) as broker:
        broker.produce_many("counts", [(0, b"ferret", encode(1), 0)])
    assert reconcile.main([*checking, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    assert report["wrong"] == 1

    assert reconcile.main([*where, "--input", "lines", "--output", "nothing"]) == 2
    assert "topic nothing does not exist" in capsys.readouterr().err


@pytest.mark.usefixtures("shared_session", "broker_class")
@pytest.mark.parametrize(
    ("command", "arguments", "hint"),
    [
        (load.main, ["--bootstrap", "embedded:", "--topic", "t"], "Name a folder"),
        (load.main, ["--bootstrap", "embedded:/a", "--topic", "t", "--skew", "-1"], "skew must not be negative"),
        (reconcile.main, ["--bootstrap", "embedded:/no/such", "--input", "a", "--output", "b"], "no embedded broker"),
    ],
)
def test_commands_that_cannot_run_exit_with_2(
    command: Callable[[list[str]], int], arguments: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(arguments) == 2
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["--records", "0"], ["--records", "many"], ["--spark-conf", "memory"]])
def test_arguments_are_checked_before_spark_starts(wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        load.main(["--bootstrap", "embedded:/a", "--topic", "t", *wrong])
    assert stop.value.code == 2


def test_fewer_records_than_requested_are_an_error(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(load, "local_session", lambda **_: contextlib.nullcontext(spark))
    monkeypatch.setattr(load, "to_broker", lambda *_, **__: 9)
    assert load.main(["--bootstrap", "embedded:/a", "--topic", "t", "--records", "10"]) == 1
    assert "grew by 9 only" in capsys.readouterr().err


RECORDS = "partition int, offset long, key binary, value binary"
