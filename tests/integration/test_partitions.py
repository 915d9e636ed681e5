"""Partitions on a real broker: joins of topics with different numbers of them, patterns, custom partitioners."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import driver_comparison
import pytest
from confluent_kafka import Producer
from counting import consume, until
from driver_comparison import START
from topics import PATIENCE_S, KafkaTopics

import stoatflow as sf


def write(kafka: KafkaTopics, topic: str, entries: Iterable[tuple[str, str]], at: int = 0) -> None:
    """Each record goes to the partition that Kafka's own client chooses by its key."""
    producer = Producer({"bootstrap.servers": kafka.address, "acks": "all", "log_level": 0, "partitioner": "murmur2"})
    for number, (key, value) in enumerate(entries):
        producer.produce(topic, value.encode(), key.encode(), timestamp=START + at + number)
    assert producer.flush(PATIENCE_S) == 0


def config(kafka: KafkaTopics, name: str, state: Path, lanes: int = 3) -> dict[str, object]:
    return driver_comparison.SETTINGS | {
        "application.id": name,
        "bootstrap.servers": kafka.address,
        "state.dir": state,
        "lanes.count": lanes,
    }


@pytest.mark.parametrize("lanes", [1, 4])
def test_sides_of_joins_have_different_numbers_of_partitions(
    kafka: KafkaTopics, name: str, tmp_path: Path, lanes: int
) -> None:
    """Kafka Streams rejects this; here a record reaches the lane of its key from any partition."""
    for topic, partitions in (("clicks", 5), ("users", 3), ("cities", 2), ("stream-table", 4), ("tables", 1)):
        kafka.create(f"{name}-{topic}", partitions)
    builder = sf.StreamsBuilder()
    clicks = builder.stream(f"{name}-clicks", key=str, value=str)
    users = builder.table(f"{name}-users", key=str, value=str, store="users")
    cities = builder.table(f"{name}-cities", key=str, value=str, store="cities")
    clicks.left_join(users, lambda click, user: f"{click}:{user}").to(f"{name}-stream-table", key=str, value=str)
    both = users.outer_join(cities, lambda user, city: f"{user}@{city}", store=sf.Materialized("both", value=str))
    both.to_stream().to(f"{name}-tables", key=str, value=str)
    topology = builder.build()

    keys = [f"k{number}" for number in range(60)]
    write(kafka, f"{name}-users", [(key, f"u{key}") for key in keys[:40]])
    write(kafka, f"{name}-cities", [(key, f"c{key}") for key in keys[20:]])
    consume(sf.StoatFlow(topology, config(kafka, name, tmp_path, lanes)))
    rng = random.Random(7)
    visits = [(rng.choice(keys), f"v{number}") for number in range(300)]
    write(kafka, f"{name}-clicks", visits, at=1_000)
    consume(sf.StoatFlow(topology, config(kafka, name, tmp_path, lanes)))

    users_by_hand = {key: f"u{key}" for key in keys[:40]}
    found = [(row.key, row.value) for row in kafka.read(f"{name}-stream-table")]
    wanted = [(key.encode(), f"{visit}:{users_by_hand.get(key)}".encode()) for key, visit in visits]
    assert driver_comparison.by_key(found) == driver_comparison.by_key(wanted)
    cities_by_hand = {key: f"c{key}" for key in keys[20:]}
    assert driver_comparison.folded((row.key, row.value) for row in kafka.read(f"{name}-tables")) == {
        key.encode(): f"{users_by_hand.get(key)}@{cities_by_hand.get(key)}".encode() for key in keys
    }


def test_a_pattern_reads_every_topic_that_matches(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    for topic, partitions in (("orders-eu", 2), ("orders-us", 3), ("old", 1), ("counts", 1)):
        kafka.create(f"{name}-{topic}", partitions)
    builder = sf.StreamsBuilder()
    orders = builder.stream(re.compile(f"{name}-orders-.*"), key=str, value=str)
    counts = orders.group_by_key().count(store="counts")
    counts.to_stream().to(f"{name}-counts", key=str, value=int)
    topology = builder.build()
    each = Counter(f"k{number % 7}".encode() for number in range(50))
    for part in range(2):
        for topic in ("orders-eu", "orders-us", "old"):
            write(kafka, f"{name}-{topic}", [(f"k{number % 7}", "x") for number in range(50)], at=part * 1_000)
        wanted = {key: 2 * n * (part + 1) for key, n in each.items()}
        app = sf.StoatFlow(topology, config(kafka, name, tmp_path))
        assert app.lag() == 2 * 50
        with app:
            until(lambda: counted(kafka, name) == wanted, "both topics are counted")  # noqa: B023
            until(lambda: app.lag() == 0, "nothing of what matches is left")  # noqa: B023
    assert counted(kafka, name) == wanted


def counted(kafka: KafkaTopics, name: str) -> dict[bytes | None, int]:
    """The last count of each key."""
    last = driver_comparison.folded((row.key, row.value) for row in kafka.read(f"{name}-counts"))
    return {key: driver_comparison.long(value) for key, value in last.items()}


def test_a_partitioner_chooses_one_partition_several_or_none(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    """Records that it leaves to the default go where Kafka's own client would send them."""
    for topic, partitions in (("in", 2), ("out", 4), ("as-java", 4)):
        kafka.create(f"{name}-{topic}", partitions)
    asked: set[tuple[str, int]] = set()

    def partitioner(topic: str, key: str, value: str, partitions: int) -> list[int] | None:
        asked.add((topic, partitions))
        choices: dict[str, list[int] | None] = {"one": [2], "all": list(range(partitions)), "none": [], "default": None}
        return choices[value]

    builder = sf.StreamsBuilder()
    stream = builder.stream(f"{name}-in", key=str, value=str)
    stream.to(f"{name}-out", key=str, value=str, partitioner=partitioner)
    given = [(f"k{number}", ("one", "all", "none", "default")[number % 4]) for number in range(80)]
    write(kafka, f"{name}-in", given)
    write(kafka, f"{name}-as-java", given)
    consume(sf.StoatFlow(builder.build(), config(kafka, name, tmp_path)))

    assert asked == {(f"{name}-out", 4)}
    found: dict[str, set[int]] = {}
    rows = kafka.read(f"{name}-out")
    for row in rows:
        assert row.key is not None
        found.setdefault(row.key.decode(), set()).add(row.partition)
    java = {row.key: row.partition for row in kafka.read(f"{name}-as-java")}
    by_hand = {"one": {2}, "all": {0, 1, 2, 3}}
    assert found == {key: by_hand.get(value, {java[key.encode()]}) for key, value in given if value != "none"}
    assert len(rows) == 20 + 20 * 4 + 20


@pytest.mark.parametrize("wrong", [[4], [-1]])
def test_a_missing_partition_is_refused(kafka: KafkaTopics, name: str, tmp_path: Path, wrong: list[int]) -> None:
    for topic in ("in", "out"):
        kafka.create(f"{name}-{topic}", 4)
    builder = sf.StreamsBuilder()
    stream = builder.stream(f"{name}-in", key=str, value=str)
    stream.to(f"{name}-out", key=str, value=str, partitioner=lambda topic, key, value, partitions: wrong)
    write(kafka, f"{name}-in", [("k", "v")])
    app = sf.StoatFlow(builder.build(), config(kafka, name, tmp_path))
    app.start()
    with pytest.raises(sf.StoatFlowError, match="partition"):
        assert app.wait(PATIENCE_S)
    app.close()
    assert kafka.read(f"{name}-out") == []


@pytest.mark.parametrize("reset", ["earliest", "latest"])
@pytest.mark.parametrize("store", ["on disk", "only in memory"])
def test_partitions_are_added_while_it_runs(
    kafka: KafkaTopics, name: str, tmp_path: Path, reset: str, store: str
) -> None:
    """New partitions are read from the beginning, exactly once, and the counts continue."""
    for topic, partitions in (("in", 2), ("counts", 1)):
        kafka.create(f"{name}-{topic}", partitions)
    builder = sf.StreamsBuilder()
    words = builder.stream(f"{name}-in", key=str, value=str)
    kept = sf.Materialized("counts", logging=False, type="memory") if store == "only in memory" else "counts"
    words.group_by_key().count(store=kept).to_stream().to(f"{name}-counts", key=str, value=int)
    settings = config(kafka, name, tmp_path) | {"metadata.max.age.ms": 300, "auto.offset.reset": reset}
    app = sf.StoatFlow(builder.build(), settings)
    given = [(f"k{number % 9}", "x") for number in range(900)]
    each = {f"k{number}".encode(): 100 for number in range(9)}
    with app:
        until(lambda: str(app.state) == "RUNNING", "it runs")
        write(kafka, f"{name}-in", given)
        until(lambda: counted(kafka, name) == each, "the first records are counted")
        kafka.grow(f"{name}-in", 5)
        # Before it can know of them: keys now map to other partitions, three of them new.
        write(kafka, f"{name}-in", given, at=1_000)
        until(lambda: counted(kafka, name) == dict.fromkeys(each, 200), "what is in the new ones is counted")
        write(kafka, f"{name}-in", given, at=2_000)
        until(lambda: counted(kafka, name) == dict.fromkeys(each, 300), "and it goes on")
        assert {row.partition for row in kafka.read(f"{name}-in")} > {2}
        assert int(app.metrics()["restarts"]) == 0
    # In a new process too: the group has offsets for all partitions.
    if store == "on disk":
        write(kafka, f"{name}-in", given, at=3_000)
        consume(sf.StoatFlow(builder.build(), settings))
        assert counted(kafka, name) == dict.fromkeys(each, 400)
    every = [driver_comparison.long(row.value) for row in kafka.read(f"{name}-counts") if row.key == b"k0"]
    assert every == sorted(set(every)), "a count went back or came twice"


def test_topics_that_match_a_pattern_join_while_it_runs(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    kafka.create(f"{name}-orders-eu", 2)
    kafka.create(f"{name}-counts", 1)
    builder = sf.StreamsBuilder()
    orders = builder.stream(re.compile(f"{name}-orders-.*"), key=str, value=str)
    orders.group_by_key().count(store="counts").to_stream().to(f"{name}-counts", key=str, value=int)
    builder.scheduled("beat", every="10ms").to(f"{name}-ticks", key=str, value=int)
    kafka.create(f"{name}-ticks")
    settings = config(kafka, name, tmp_path) | {"metadata.max.age.ms": 300, "auto.offset.reset": "latest"}
    with sf.StoatFlow(builder.build(), settings) as app:
        until(lambda: str(app.state) == "RUNNING", "it runs")
        kafka.create(f"{name}-orders-us", 3)
        kafka.create(f"{name}-others", 1)
        for topic in ("orders-us", "others"):
            write(kafka, f"{name}-{topic}", [("k", "x")] * 10)
        until(lambda: counted(kafka, name) == {b"k": 10}, "the new topic is counted, from its beginning")
        joined = time.time() * 1000
        until(lambda: driver_comparison.long(kafka.read(f"{name}-ticks")[-1].value) > joined, "it ticks on")
    ticks = [driver_comparison.long(row.value) for row in kafka.read(f"{name}-ticks")]
    assert ticks == list(range(ticks[0], ticks[-1] + 1, 10)), "a tick was missed, although it never stopped"


def test_start_positions_are_committed_without_records(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    """Otherwise "latest" would be another position after each restart, and records in between would be lost."""
    kafka.create(f"{name}-in", 2)
    kafka.create(f"{name}-counts", 1)
    builder = sf.StreamsBuilder()
    words = builder.stream(f"{name}-in", key=str, value=str)
    words.group_by_key().count(store="counts").to_stream().to(f"{name}-counts", key=str, value=int)
    topology = builder.build()
    write(kafka, f"{name}-in", [("before", "x")])
    settings = config(kafka, name, tmp_path) | {"auto.offset.reset": "latest"}
    with sf.StoatFlow(topology, settings) as app:
        until(lambda: str(app.state) == "RUNNING", "it runs")
    write(kafka, f"{name}-in", [("between", "x")])
    consume(sf.StoatFlow(topology, settings))
    assert counted(kafka, name) == {b"between": 1}
