"""Word count on real Kafka: the same table for every number of lanes, every update once, state that is restored."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from counting import by_hand, check_every_update, consume, lines, make, table, until
from topics import KafkaTopics

LINES = 4000
PARTITIONS = 4


def given_lines(kafka: KafkaTopics, name: str, seed: int, count: int = LINES) -> list[str]:
    """Input topic with lines, output topic empty."""
    kafka.create(f"{name}-in", PARTITIONS)
    kafka.create(f"{name}-out", PARTITIONS)
    made = lines(seed, count)
    kafka.write(f"{name}-in", made)
    return made


def check_all(kafka: KafkaTopics, name: str, given: list[str]) -> None:
    """Output, changelog and offsets agree with the count by hand."""
    check_every_update(kafka.read(f"{name}-out"), given)
    assert table(kafka.read(f"{name}-counts-changelog")) == by_hand(given)
    assert kafka.committed(name, f"{name}-in") == kafka.ends(f"{name}-in")


EXACTLY, AT_LEAST = "exactly_once_v2", "at_least_once"


@pytest.mark.parametrize(
    ("guarantee", "flavour", "lanes"),
    [
        *((EXACTLY, flavour, lanes) for flavour in ("native", "lambda") for lanes in (1, 4, 64)),
        (AT_LEAST, "native", 1),
        (AT_LEAST, "lambda", 4),
        (AT_LEAST, "native", 64),
    ],
)
def test_same_table_for_any_number_of_lanes(
    kafka: KafkaTopics, name: str, tmp_path: Path, flavour: str, lanes: int, guarantee: str
) -> None:
    given = given_lines(kafka, name, seed=1)
    app = make(kafka.address, name, tmp_path, flavour, lanes_count=lanes, processing_guarantee=guarantee)
    consume(app)
    check_all(kafka, name, given)
    assert [str(s) for s in app.states] == ["CREATED", "STARTING", "RESTORING", "RUNNING", "STOPPING", "STOPPED"]


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_lanes_change_across_restarts(kafka: KafkaTopics, name: str, tmp_path: Path, guarantee: str) -> None:
    given = given_lines(kafka, name, seed=2, count=1500)
    for seed, (lanes, flavour) in enumerate([(1, "native"), (64, "lambda"), (4, "native"), (3, "lambda")]):
        if seed:
            more = lines(20 + seed, 1500)
            kafka.write(f"{name}-in", more)
            given += more
        consume(make(kafka.address, name, tmp_path, flavour, lanes_count=lanes, processing_guarantee=guarantee))
        check_all(kafka, name, given)


def test_restart_with_nothing_left_emits_nothing(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    given = given_lines(kafka, name, seed=3)
    consume(make(kafka.address, name, tmp_path))
    topics = (f"{name}-out", f"{name}-counts-changelog")
    before = [kafka.read(topic) for topic in topics]
    again = make(kafka.address, name, tmp_path)
    with again:
        until(lambda: str(again.state) == "RUNNING", "running again")
        assert again.lag() == 0
        assert not again.wait(0.5)
    assert [kafka.read(topic) for topic in topics] == before
    assert again.metrics()["records_out"] == 0
    check_all(kafka, name, given)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_wiped_state_directory_is_restored_from_the_changelog(
    kafka: KafkaTopics, name: str, tmp_path: Path, guarantee: str
) -> None:
    given = given_lines(kafka, name, seed=4)
    consume(make(kafka.address, name, tmp_path, processing_guarantee=guarantee))
    shutil.rmtree(tmp_path)
    more = lines(40, 2000)
    kafka.write(f"{name}-in", more)
    consume(make(kafka.address, name, tmp_path, lanes_count=7, processing_guarantee=guarantee))
    check_all(kafka, name, given + more)


def test_state_in_memory_is_restored_from_the_changelog(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    given = given_lines(kafka, name, seed=5)
    for seed in (50, 51):
        consume(make(kafka.address, name, tmp_path, default_dsl_store="in_memory"))
        more = lines(seed, 1000)
        kafka.write(f"{name}-in", more)
        given += more
    consume(make(kafka.address, name, tmp_path, default_dsl_store="in_memory"))
    check_all(kafka, name, given)


def test_a_cache_emits_the_last_update_per_commit(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    given = given_lines(kafka, name, seed=6)
    consume(make(kafka.address, name, tmp_path, statestore_cache_max_bytes=10_000_000, commit_min_interval_ms=100))
    rows = kafka.read(f"{name}-out")
    assert table(rows) == by_hand(given) == table(kafka.read(f"{name}-counts-changelog"))
    assert len(rows) < 5 * LINES / 2


def test_all_commits_of_a_run_are_transactions(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    """Transaction markers take offsets: an output without any would not be exactly once."""
    given_lines(kafka, name, seed=7, count=200)
    consume(make(kafka.address, name, tmp_path))
    rows = kafka.read(f"{name}-out")
    assert sum(kafka.ends(f"{name}-out").values()) > len(rows)
