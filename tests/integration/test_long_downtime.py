"""An application that comes back after the broker has forgotten: its offsets, or what it had deleted meanwhile."""

from __future__ import annotations

import contextlib
import json
import shutil
import struct
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from broker.kafka_broker import KafkaBroker
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from counting import until, until_consumed, until_running
from topics import KafkaTopics

import stoatflow as sf

GUARANTEES = ["exactly_once_v2", "at_least_once"]
FORGETFUL = {
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "1000",
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "500",
}


@pytest.fixture(scope="module")
def forgetful() -> Iterator[KafkaTopics]:
    """A broker that forgets offsets after a minute, and compacts at once."""
    with KafkaBroker(settings=FORGETFUL) as running:
        yield KafkaTopics(running.bootstrap)


def counting(kafka: KafkaTopics, name: str, state: Path, guarantee: str = "exactly_once_v2") -> sf.StoatFlow:
    """Counts the records of each value."""
    builder = sf.StreamsBuilder()
    words = builder.stream(f"{name}-in", key=bytes, value=str)
    words.group_by(sf.value, key=str).count(store="counts").to_stream().to(f"{name}-out", key=str, value=int)
    config = {
        "application.id": name,
        "bootstrap.servers": kafka.address,
        "state.dir": state,
        "processing.guarantee": guarantee,
        "statestore.cache.max.bytes": 0,
    }
    return sf.StoatFlow(builder.build(), config)


def counts(kafka: KafkaTopics, name: str) -> list[int]:
    return [struct.unpack(">q", row.value or b"")[0] for row in kafka.read(f"{name}-out")]


def forget(kafka: KafkaTopics, group: str) -> None:
    """What `offsets.retention.minutes` does to a group without members, at once."""
    admin = AdminClient({"bootstrap.servers": kafka.address, "log_level": 0})
    admin.delete_consumer_groups([group])[group].result(30)


def positions(kafka: KafkaTopics, name: str) -> dict[int, int]:
    """Offsets of the input by the offsets topic."""
    found: dict[int, int] = {}
    for row in kafka.read(f"{name}-offsets"):
        key = json.loads(row.key or b"")
        if key[0] == "position" and row.value is not None:
            assert key[1] == f"{name}-in"
            found[key[2]] = json.loads(row.value)["offset"]
    return found


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_nothing_counts_twice_when_the_group_is_forgotten(
    kafka: KafkaTopics, name: str, tmp_path: Path, guarantee: str
) -> None:
    kafka.create(f"{name}-in", 2)
    kafka.create(f"{name}-out")
    kafka.write(f"{name}-in", ["word"] * 100)
    with counting(kafka, name, tmp_path, guarantee) as app:
        until_consumed(app)
    assert kafka.config(f"{name}-offsets")["cleanup.policy"] == "compact"
    assert positions(kafka, name) == kafka.committed(name, f"{name}-in")
    forget(kafka, name)
    kafka.write(f"{name}-in", ["word"])
    with counting(kafka, name, tmp_path, guarantee) as app:
        until_consumed(app)
    assert counts(kafka, name) == list(range(1, 102))
    assert positions(kafka, name) == kafka.committed(name, f"{name}-in"), "the group has them again"


def test_a_group_that_a_tool_has_moved_is_followed(
    kafka: KafkaTopics, name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kafka.create(f"{name}-in")
    kafka.create(f"{name}-out")
    kafka.write(f"{name}-in", ["word"] * 10)
    with counting(kafka, name, tmp_path) as app:
        until_consumed(app)
    # Its last commit is done: its markers would come behind what the tool does.
    assert kafka.committed(name, f"{name}-in") == {0: 10}
    # As kafka-consumer-groups --reset-offsets --to-offset 8.
    admin = AdminClient({"bootstrap.servers": kafka.address, "log_level": 0})
    moved = ConsumerGroupTopicPartitions(name, [TopicPartition(f"{name}-in", 0, 8)])
    admin.alter_consumer_group_offsets([moved])[name].result(30)
    with counting(kafka, name, tmp_path) as app:
        until_consumed(app)
    assert counts(kafka, name) == list(range(1, 13)), "two records were read again, as was asked for"
    assert positions(kafka, name) == {0: 10}


@pytest.mark.parametrize("what", ["source", "changelog"])
def test_a_topic_recreated_during_downtime_is_refused(kafka: KafkaTopics, name: str, tmp_path: Path, what: str) -> None:
    topic, other = f"{name}-in", f"{name}-counts-changelog"
    kafka.create(topic)
    kafka.create(f"{name}-out")
    kafka.write(topic, ["word"] * 10)
    with counting(kafka, name, tmp_path) as app:
        until_consumed(app)
    remade = topic if what == "source" else other
    config = {} if what == "source" else {"cleanup.policy": "compact"}
    kafka.delete([remade])
    kafka.create(remade, 1, config)
    # Refilled beyond the position: offsets alone would not tell.
    kafka.write(remade, ["other"] * 40, key="x")
    for state in (tmp_path, tmp_path / "elsewhere"):
        with pytest.raises(sf.IncompatibleStateError, match=f"'{remade}' was deleted and created again") as refused:
            counting(kafka, name, state).run()
        assert "stoatflow reset" in str(refused.value)
    assert counts(kafka, name) == list(range(1, 11)), "nothing was written"


def test_a_changelog_with_other_partitions_is_refused(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    """Its next rows of a key would be in another partition than the older ones; a restore reads both at once."""
    changelog = f"{name}-counts-changelog"
    for topic in (f"{name}-in", f"{name}-out"):
        kafka.create(topic)
    kafka.write(f"{name}-in", ["word"] * 10)
    with counting(kafka, name, tmp_path) as app:
        until_consumed(app)
    kafka.grow(changelog, 3)
    for state in (tmp_path, tmp_path / "elsewhere"):
        with pytest.raises(sf.IncompatibleStateError, match="has 3 partitions, and had 1 when") as refused:
            counting(kafka, name, state).run()
        assert "stoatflow reset" in str(refused.value)
    assert counts(kafka, name) == list(range(1, 11)), "nothing was written"


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_input_that_expired_unread_is_logged(
    kafka: KafkaTopics, name: str, tmp_path: Path, guarantee: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for topic in (f"{name}-in", f"{name}-out"):
        kafka.create(topic)
    kafka.write(f"{name}-in", ["word"] * 10)
    with counting(kafka, name, tmp_path, guarantee) as app:
        until_consumed(app)
        assert app.metrics()["dropped"] == []
    kafka.write(f"{name}-in", ["word"] * 30)
    kafka.empty(f"{name}-in")
    kafka.write(f"{name}-in", ["word"] * 5)
    capfd.readouterr()
    with counting(kafka, name, tmp_path, guarantee) as app:
        until_consumed(app)
        dropped = [(drop["reason"], drop["count"]) for drop in app.metrics()["dropped"]]
    assert dropped == [("expired", 30)]
    assert "the broker has removed records before the application has read them" in capfd.readouterr().err
    assert counts(kafka, name) == list(range(1, 16))


def windows(kafka: KafkaTopics, name: str, state: Path) -> sf.StoatFlow:
    """Counts the records of each value by the hour; the broker removes rows of its changelog by their age."""
    builder = sf.StreamsBuilder()
    words = builder.stream(f"{name}-in", key=bytes, value=str).group_by(sf.value, key=str)
    hourly = words.windowed_by(sf.TimeWindows("1h", grace="0s")).count(store="hourly").to_stream()
    hourly.map(lambda window, count: (window.key, count)).to(f"{name}-out", key=str, value=int)
    config = {
        "application.id": name,
        "bootstrap.servers": kafka.address,
        "state.dir": state,
        "statestore.cache.max.bytes": 0,
    }
    return sf.StoatFlow(builder.build(), config)


def test_a_changelog_that_has_expired_leaves_the_local_state_as_it_is(
    kafka: KafkaTopics, name: str, tmp_path: Path
) -> None:
    """A quiet window store: what is left of its changelog is less than the local state, which lacks nothing."""
    at = 1_700_000_000_000
    producer = Producer({"bootstrap.servers": kafka.address})
    for topic in (f"{name}-in", f"{name}-out"):
        kafka.create(topic)

    def write(times: int) -> None:
        for _ in range(times):
            producer.produce(f"{name}-in", b"word", timestamp=at)
        assert producer.flush(30) == 0

    write(10)
    with windows(kafka, name, tmp_path) as app:
        until_consumed(app)
    # As the broker does when they are older than the topic's retention: to the end, markers too.
    kafka.empty(f"{name}-hourly-changelog")
    write(1)
    with windows(kafka, name, tmp_path) as app:
        until_consumed(app)
    assert counts(kafka, name) == list(range(1, 12))


def test_offsets_that_expire(forgetful: KafkaTopics, name: str, tmp_path: Path) -> None:
    """With a real expiry, for one that is stopped, one that idles, and one of whose partitions one is quiet."""
    kafka = forgetful
    apps = {kind: f"{name}-{kind}" for kind in ("stopped", "idle", "quiet")}
    for app_name in apps.values():
        kafka.create(f"{app_name}-in", 2)
        kafka.create(f"{app_name}-out")
        kafka.write(f"{app_name}-in", ["word"] * 100)
    with counting(kafka, apps["stopped"], tmp_path) as app:
        until_consumed(app)
    with counting(kafka, apps["idle"], tmp_path) as idle, counting(kafka, apps["quiet"], tmp_path) as quiet:
        until_consumed(idle)
        until_consumed(quiet)
        written, began = 0, time.monotonic()
        stopped = (apps["stopped"], f"{apps['stopped']}-in")
        while time.monotonic() - began < 66 or max(kafka.committed(*stopped).values()) >= 0:
            assert time.monotonic() - began < 200, "the broker has not forgotten"
            # Partition 0 alone has something to read.
            kafka.write(f"{apps['quiet']}-in", ["word"])
            written += 1
            time.sleep(1)
        until_consumed(quiet)
        assert kafka.committed(apps["idle"], f"{apps['idle']}-in") == {0: 50, 1: 50}
        assert kafka.committed(apps["quiet"], f"{apps['quiet']}-in") == {0: 50 + written, 1: 50}
    assert kafka.committed(*stopped) == {0: -1001, 1: -1001}
    more = {"stopped": 0, "idle": 0, "quiet": written}
    for kind, app_name in apps.items():
        kafka.write(f"{app_name}-in", ["word"])
        with counting(kafka, app_name, tmp_path) as app:
            until_consumed(app)
        assert counts(kafka, app_name) == list(range(1, 102 + more[kind])), kind


def names(kafka: KafkaTopics, name: str, state: Path, logging: Mapping[str, str]) -> sf.StoatFlow:
    """Joins questions with a table of names, so that its rows can be asked for."""
    builder = sf.StreamsBuilder()
    table = builder.table(f"{name}-names", key=str, value=str, store=sf.Materialized("names", logging=logging))
    asked = builder.stream(f"{name}-asked", key=str, value=str)
    asked.left_join(table, lambda _, found: found or "nobody").to(f"{name}-out", key=str, value=str)
    config = {
        "application.id": name,
        "bootstrap.servers": kafka.address,
        "state.dir": state,
        "admin.listen": "127.0.0.1:0",
    }
    return sf.StoatFlow(builder.build(), config)


def put(kafka: KafkaTopics, topic: str, given: Mapping[str, str | None]) -> None:
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
    for key, value in given.items():
        producer.produce(topic, None if value is None else value.encode(), key=key.encode())
    assert producer.flush(30) == 0


def answers(kafka: KafkaTopics, name: str) -> dict[str, str]:
    """The last answer for each key."""
    return {(r.key or b"").decode(): (r.value or b"").decode() for r in kafka.read(f"{name}-out")}


def rebuilt(app: sf.StoatFlow) -> list[Any]:
    """What `/state` says of local data that was thrown away."""
    with contextlib.closing(urllib.request.urlopen(f"{str(app.admin_url).rstrip('/')}/state", timeout=60)) as answer:  # noqa: S310 (loopback)
        return [store.get("rebuilt") for store in json.load(answer)["restore"]]


@pytest.mark.parametrize("kept", [True, False])
def test_deleted_rows_stay_deleted_for_an_old_copy_of_the_state(
    forgetful: KafkaTopics, name: str, tmp_path: Path, kept: bool
) -> None:
    """KIP-1259: the changelog has forgotten deletions that an old copy of the state has not seen."""
    kafka, old, new = forgetful, tmp_path / "old", tmp_path / "new"
    for topic in ("names", "asked", "out"):
        kafka.create(f"{name}-{topic}")
    retention = "86400000" if kept else "1000"
    logging = {"min.cleanable.dirty.ratio": "0.0", "segment.ms": "500", "delete.retention.ms": retention}
    people = {f"k{n}": f"name {n}" for n in range(20)}
    put(kafka, f"{name}-names", people)
    with names(kafka, name, new, logging) as app:
        until_consumed(app)
    shutil.copytree(new, old)
    gone = [f"k{n}" for n in range(10)]
    changelog = f"{name}-names-changelog"

    def tombstones() -> int:
        return sum(row.value is None for row in kafka.read(changelog))

    with names(kafka, name, new, logging) as app:
        put(kafka, f"{name}-names", dict.fromkeys(gone))
        until_consumed(app)
        assert tombstones() == 10
        began = time.monotonic()
        # Each commit may close a segment, which is compacted then.
        while (tombstones() > 0) is not kept or time.monotonic() - began < 3:
            assert time.monotonic() - began < 120, f"{tombstones()} tombstones are there still"
            put(kafka, f"{name}-names", {"k19": f"name {time.monotonic()}"})
            time.sleep(0.3)
        until_consumed(app)

    with names(kafka, name, old, logging) as app:
        until_running(app)
        (output,) = rebuilt(app)
        put(kafka, f"{name}-asked", dict.fromkeys(people, "?"))
        until(lambda: len(answers(kafka, name)) == len(people), "all is answered")
    found = answers(kafka, name)
    assert [found[key] for key in gone] == ["nobody"] * 10, "deleted rows came back"
    assert [found[f"k{n}"] for n in range(10, 19)] == [f"name {n}" for n in range(10, 19)]
    if kept:
        assert output is None, "nothing was lost: what lies between is read on top of the old copy"
    else:
        assert "delete.retention.ms" in output
