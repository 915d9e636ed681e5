"""Partitions on a real broker: joins of topics with different numbers of them, patterns, a partitioner of one's own."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import likeness
import pytest
from confluent_kafka import Producer
from counting import consume, until
from likeness import START
from topics import PATIENCE_S, KafkaTopics

import stoatflow as sf


def write(kafka: KafkaTopics, topic: str, entries: Iterable[tuple[str, str]], at: int = 0) -> None:
    """Each record goes to the partition that Kafka's own client chooses, by its key."""
    producer = Producer({"bootstrap.servers": kafka.address, "acks": "all", "log_level": 0, "partitioner": "murmur2"})
    for number, (key, value) in enumerate(entries):
        producer.produce(topic, value.encode(), key.encode(), timestamp=START + at + number)
    assert producer.flush(PATIENCE_S) == 0


def config(kafka: KafkaTopics, name: str, state: Path, lanes: int = 3) -> dict[str, object]:
    return likeness.SETTINGS | {
        "application.id": name,
        "bootstrap.servers": kafka.address,
        "state.dir": state,
        "lanes.count": lanes,
    }


@pytest.mark.parametrize("lanes", [1, 4])
def test_sides_of_joins_have_different_numbers_of_partitions(
    kafka: KafkaTopics, name: str, tmp_path: Path, lanes: int
) -> None:
    """Kafka Streams refuses this; here a record finds the lane of its key from any partition."""
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
    assert likeness.by_key(found) == likeness.by_key(wanted)
    cities_by_hand = {key: f"c{key}" for key in keys[20:]}
    assert likeness.folded((row.key, row.value) for row in kafka.read(f"{name}-tables")) == {
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
    last = likeness.folded((row.key, row.value) for row in kafka.read(f"{name}-counts"))
    return {key: likeness.long(value) for key, value in last.items()}


def test_a_partitioner_chooses_one_partition_several_or_none(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    """And what it leaves to the default goes where Kafka's own client would send it."""
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
def test_a_partition_that_is_not_there_is_refused(
    kafka: KafkaTopics, name: str, tmp_path: Path, wrong: list[int]
) -> None:
    for topic in ("in", "out"):
        kafka.create(f"{name}-{topic}", 4)
    builder = sf.StreamsBuilder()
    stream = builder.stream(f"{name}-in", key=str, value=str)
    stream.to(f"{name}-out", key=str, value=str, partitioner=lambda topic, key, value, partitions: wrong)
    write(kafka, f"{name}-in", [("k", "v")])
    app = sf.StoatFlow(builder.build(), config(kafka, name, tmp_path))
    app.start()
    with pytest.raises(sf.StoatFlowError, match="partition"):
        assert app.wait(30.0)
    app.close()
    assert kafka.read(f"{name}-out") == []
