"""One side has the work at any time: what a handover refuses, and how it continues after an interruption."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]
from counting import by_hand, check_every_update, consume, lines, make, table, until, until_running
from topics import KafkaTopics

import stoatflow as sf
from stoatflow.cli.reset import ResetRequest, Target
from stoatflow.cli.word_count import topology
from stoatflow.spark.errors import TwinError
from stoatflow.spark.handover import FromSpark, ToSpark
from stoatflow.spark.handover.application import Application
from stoatflow.spark.session import local_session
from stoatflow.spark.twin import handed_over
from stoatflow.spark.twin.streaming import TwinQuery, run_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BROKEN = "ended by the test"
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.xdist_group("handover"),
]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    conf = {"spark.sql.shuffle.partitions": "1", "spark.sql.adaptive.enabled": "false"}
    session = local_session(kafka=True, conf=conf)
    yield session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        session.stop()
        gc.collect()


class Words:
    """A word count, its topics, and a folder for its state."""

    guarantee = "exactly_once_v2"

    def __init__(self, spark: SparkSession, kafka: KafkaTopics, name: str, folder: Path) -> None:
        self.spark, self.kafka, self.name, self.folder = spark, kafka, name, folder
        self.topology = topology(f"{name}-in", f"{name}-out", "native")
        given = {"application.id": name, "bootstrap.servers": kafka.address, "state.dir": str(folder / "state")}
        self.settings = sf.Settings(given, environ={})
        self.lines: list[str] = []
        for topic in ("in", "out"):
            kafka.create(f"{name}-{topic}", 2)

    def write(self) -> None:
        new = lines(len(self.lines), 40)
        self.kafka.write(f"{self.name}-in", new)
        self.lines += new

    def app(self) -> sf.StoatFlow:
        return make(self.kafka.address, self.name, self.folder / "state", processing_guarantee=self.guarantee)

    def engine(self) -> None:
        consume(self.app())

    def does_not_start(self) -> None:
        app = self.app()
        with pytest.raises(sf.IncompatibleStateError, match="handed over to Spark"), app:
            until_running(app)

    def there(self, checkpoint: str) -> ToSpark:
        return ToSpark(self.spark, self.topology, self.settings, self.folder / checkpoint, tasks=1)

    def back(self, checkpoint: str) -> FromSpark:
        return FromSpark(self.spark, self.topology, self.settings, self.folder / checkpoint)

    def query(self, checkpoint: str, output: Any = None, *, until_end: bool = True) -> TwinQuery:
        """Start a query, which writes to the topics by default."""
        where = self.kafka.address
        folder = self.folder / checkpoint
        return run_stream(self.spark, self.topology, where, output or where, checkpoint=folder, until_end=until_end)

    def run(self, checkpoint: str) -> None:
        with self.query(checkpoint) as query:
            assert query.wait(120)

    def check(self) -> None:
        """Checks that every update is there once."""
        rows = self.kafka.read(f"{self.name}-out")
        check_every_update(rows, self.lines)
        assert table(rows) == by_hand(self.lines)


@pytest.fixture
def words(spark: SparkSession, kafka: KafkaTopics, name: str, tmp_path: Path) -> Words:
    return Words(spark, kafka, name, tmp_path)


def test_only_one_side_owns_the_application(words: Words) -> None:
    words.write()
    with pytest.raises(sf.ConfigError, match="has committed nothing: there is nothing to hand over"):
        words.there("one")
    words.engine()
    words.there("one").make()
    with pytest.raises(sf.ConfigError, match=r"is handed over to Spark: .*/one .*from-spark --checkpoint .*/one"):
        words.there("two")
    with pytest.raises(sf.ConfigError, match=r"there is a query in .*/one already"):
        words.there("one")

    # Before its first trigger everything is unchanged.
    plan = words.back("one")
    assert "before its first trigger" in plan.describe()
    assert [store.changes for store in plan.stores] == [0]
    plan.make()
    with pytest.raises(TwinError, match="was handed back to the application"):
        words.query("one")
    with pytest.raises(sf.ConfigError, match="has its work already: it was handed back; nothing was changed"):
        words.back("one")
    words.write()
    words.engine()
    words.check()

    # A query that is running while the work is handed back doesn't continue.
    words.there("two").make()
    words.write()
    with words.query("two", until_end=False) as query:
        until(lambda: bool(query.progress()) and query.query.status["isTriggerActive"] is False, "it is idle")
        plan = words.back("two")
        plan.make()
        words.write()
        with pytest.raises(TwinError, match="the query failed"):
            query.wait(120)
    words.engine()
    words.check()


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.long)])
def test_an_interrupted_handover_continues(words: Words, monkeypatch: pytest.MonkeyPatch, guarantee: str) -> None:
    words.guarantee = guarantee
    words.write()
    words.engine()

    def fails(*_: object) -> None:
        raise RuntimeError(BROKEN)

    with monkeypatch.context() as broken:
        broken.setattr(handed_over, "write", fails)
        with pytest.raises(RuntimeError, match=BROKEN):
            words.there("one").make()
    with pytest.raises(TwinError, match="was begun and has not ended: run it again"):
        words.query("one")
    words.does_not_start()
    words.there("one").make()

    # A trigger that has begun is finished first.
    words.write()
    with words.query("one", fails) as query, pytest.raises(TwinError):
        query.wait(120)
    with pytest.raises(TwinError, match=r"trigger 0 in .* has begun and not ended"):
        words.back("one")
    words.run("one")

    plan = words.back("one")
    with monkeypatch.context() as broken:
        broken.setattr(plan.application, "take_back", fails)
        with pytest.raises(RuntimeError, match=BROKEN):
            plan.make()
    # Neither side has the work now.
    with pytest.raises(TwinError, match="was handed back to the application"):
        words.query("one")
    words.does_not_start()
    words.back("one").make()
    assert words.kafka.committed(words.name, f"{words.name}-in") == {
        partition: end for (_, partition), end in plan.positions.items()
    }
    words.write()
    words.engine()
    words.check()


@pytest.mark.long
def test_a_query_started_in_spark_goes_to_a_new_application(words: Words) -> None:
    words.write()
    words.run("one")
    consumer = Consumer({"bootstrap.servers": words.kafka.address, "group.id": f"{words.name}-old"})
    consumer.commit(offsets=[TopicPartition(f"{words.name}-in", 0, 1)], asynchronous=False)
    consumer.close()
    old = {**dict(words.settings.pairs()), "application.id": f"{words.name}-old"}
    with pytest.raises(sf.ConfigError, match=f"'{words.name}-old' is not new: it has a committed offset"):
        FromSpark(words.spark, words.topology, sf.Settings(old, environ={}), words.folder / "one")
    words.back("one").make()
    with pytest.raises(sf.ConfigError, match="has its work already: it was handed back"):
        words.back("one")
    words.write()
    words.engine()
    words.check()


@pytest.mark.long
def test_a_topology_without_stores_does_not_start_either(words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = sf.StreamsBuilder()
    builder.stream(f"{words.name}-in", key=str, value=str).to(f"{words.name}-out", key=str, value=str)
    words.topology = builder.build()

    def engine() -> None:
        consume(sf.StoatFlow(words.topology, words.settings))

    def does_not_start() -> None:
        app = sf.StoatFlow(words.topology, words.settings)
        message = r"handed over to Spark: .*/one \(.*Next: hand it back: stoatflow hand-over .* --checkpoint .*/one"
        with pytest.raises(sf.IncompatibleStateError, match=message), app:
            until_running(app)

    def fails(*_: object) -> None:
        raise RuntimeError(BROKEN)

    words.write()
    engine()
    with monkeypatch.context() as broken:
        broken.setattr(handed_over, "write", fails)
        with pytest.raises(RuntimeError, match=BROKEN):
            words.there("one").make()
    does_not_start()
    words.there("one").make()
    does_not_start()
    words.write()
    words.run("one")
    does_not_start()
    words.back("one").make()
    with pytest.raises(sf.ConfigError, match="has its work already: it was handed back"):
        words.back("one")
    words.write()
    engine()
    with pytest.raises(sf.ConfigError, match="has its work already: it was handed back"):
        words.back("one")
    rows = words.kafka.read(f"{words.name}-out")
    assert sorted(row.value or b"" for row in rows) == sorted(line.encode() for line in words.lines)

    # A reset takes the work back too.
    words.there("two").make()
    ResetRequest(words.topology, words.settings, Target("earliest"), []).make(lambda _: True)
    engine()
    with pytest.raises(sf.ConfigError, match="has its work already, and not by this checkpoint"):
        words.back("two")


def test_topics_are_made_as_the_engine_makes_them(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    builder = sf.StreamsBuilder()
    grouped = builder.stream(f"{name}-in", key=str, value=str).group_by_key()
    grouped.windowed_by(sf.TimeWindows("1m", grace="10s")).count(store="w")
    grouped.windowed_by(sf.SessionWindows("1m", grace="10s")).count(store="s")
    grouped.count(store=sf.Materialized("v", history="1h"))
    grouped.count(store=sf.Materialized("c", logging={"segment.bytes": "1500000"}))
    kafka.create(f"{name}-in", 3)
    built = builder.build()
    made = {}
    for who in ("engine", "spark"):
        given = {
            "application.id": f"{name}-{who}",
            "bootstrap.servers": kafka.address,
            "state.dir": str(tmp_path),
            "topic.segment.bytes": 2_000_000,
            "windowstore.changelog.additional.retention.ms": "1000",
        }
        if who == "engine":
            app = sf.StoatFlow(built, given)
            with app:
                until_running(app)
        else:
            Application(built, sf.Settings(given, environ={})).make_topics(3)
        topics = [f"{given['application.id']}-{store}-changelog" for store in ("w", "s", "v", "c", "clocks")]
        topics.append(f"{given['application.id']}-offsets")
        made[who] = [(kafka.partitions(topic), settings_of(kafka, topic)) for topic in topics]
    assert made["engine"] == made["spark"]
    assert ("cleanup.policy", "compact,delete") in made["spark"][0][1]


def settings_of(kafka: KafkaTopics, topic: str) -> set[tuple[str, str | None]]:
    """Returns the settings of a topic that differ from the broker's."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": kafka.address})
    found = admin.describe_configs([resource])[resource].result(60)
    return {(entry.name, entry.value) for entry in found.values() if entry.source == 1}


def test_misplaced_keys_are_refused(spark: SparkSession, kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    """With librdkafka's default partitioner: crc32."""
    builder = sf.StreamsBuilder()
    stream = builder.stream(f"{name}-in", key=str, value=str)
    stream.group_by_key().windowed_by(sf.TimeWindows("1m", grace="10s")).count(store="per-minute")
    kafka.create(f"{name}-in", 4)
    producer = Producer({"bootstrap.servers": kafka.address})
    for n in range(20):
        producer.produce(f"{name}-in", key=f"key-{n}", value=b"x")
    producer.flush()
    given = {"application.id": name, "bootstrap.servers": kafka.address, "state.dir": str(tmp_path / "state")}
    built = builder.build()
    consume(sf.StoatFlow(built, given))
    with pytest.raises(sf.IncompatibleStateError, match="records are not where Kafka's Java clients put them"):
        ToSpark(spark, built, sf.Settings(given, environ={}), tmp_path / "checkpoint")
