"""SIGKILL at seeded moments, restarts with other lanes and without state: the result is that of an undisturbed run."""

from __future__ import annotations

import random
import shutil
import signal
import struct
import time
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from broker.cluster import KafkaCluster
from counting import by_hand, check_every_update, check_nothing_lost, lines, table, updates
from processes import Process, word_count
from topics import EmbeddedTopics, KafkaTopics, Row, Topics

KILLS = 5
MOST_KILLS = 12
PARTITIONS = 4
LINES = 4000
EMBEDDED_LINES = 15_000
BYTES_PER_UPDATE = 30
# Small enough for a run of seconds with hundreds of commits, so that most kills hit one.
SLOW = {"STOATFLOW_IN_FLIGHT_MAX_BYTES": "64KiB", "STOATFLOW_COMMIT_MIN_INTERVAL_MS": "1"}


def run_and_kill(
    topics: Topics,
    name: str,
    state: Path,
    seed: int,
    guarantee: str,
    flavour: str,
    count: int = LINES,
    *,
    kills: int = KILLS,
    client: Mapping[str, str] | None = None,
) -> list[str]:
    """Kill it again and again, then let it finish. Returns the lines.

    `client` has the properties with which it connects, if they differ from those of the topics.

    Machines differ in speed: the moments move towards the middle of the work, and more rounds are run until enough
    kills have hit it.
    """
    rng = random.Random(seed)
    address = topics.address if client is None else client["bootstrap.servers"]
    settings = {f"STOATFLOW_{key.replace('.', '_').upper()}": value for key, value in (client or {}).items()}
    settings.pop("STOATFLOW_BOOTSTRAP_SERVERS", None)
    topics.create(f"{name}-in", PARTITIONS)
    topics.create(f"{name}-out", PARTITIONS)
    given: list[str] = []
    met: Counter[str] = Counter()
    written, window = 0, 1.0
    for attempt in range(MOST_KILLS):
        if attempt >= kills and met["the middle"] >= 2:
            break
        given += append(topics, name, seed * 100 + attempt, count)
        if attempt and rng.random() < 0.4:
            shutil.rmtree(state, ignore_errors=True)
        options = ["--lanes", rng.choice([1, 2, 4, 16]), "--flavour", flavour, "--guarantee", guarantee, "--follow"]
        with Process(word_count(address, name, state, *options), SLOW | settings) as child:
            if rng.random() < 0.2:
                time.sleep(rng.uniform(0.1, 0.8))
            elif isinstance(topics, EmbeddedTopics):
                # Without a broker in between it is too fast for a clock: the moment is a number of bytes
                # written.
                goal = topics.size() + rng.uniform(0.0, window) * count * 5 * BYTES_PER_UPDATE
                child.until(partial(is_beyond, child, topics, goal), "it writes")
            else:
                child.until(partial(is_at_work, child, state), "it opens its state")
                time.sleep(rng.uniform(0.0, 0.3 * window))
            child.signal(signal.SIGKILL)
            assert child.wait() in {0, -signal.SIGKILL}, child.reported()
        before, written = written, topics.count(f"{name}-out")
        moment = "too early" if written == before else "too late" if written >= 5 * len(given) else "the middle"
        window *= {"too early": 1.5, "too late": 0.5}.get(moment, 1.0)
        met[moment] += 1
    assert met["the middle"] >= 1, f"no kill met work under way: {met}"
    given += append(topics, name, seed * 100 + 99, 500)
    last = ["--lanes", 3, "--flavour", flavour, "--guarantee", guarantee]
    with Process(word_count(address, name, state, *last), settings) as child:
        assert child.wait() == 0, child.reported()
    return given


def append(topics: Topics, name: str, seed: int, count: int) -> list[str]:
    """Write more lines."""
    more = lines(seed, count)
    topics.write(f"{name}-in", more)
    return more


def is_beyond(child: Process, topics: EmbeddedTopics, goal: float) -> bool:
    """Whether it has written this much (or has ended already)."""
    return child.code is not None or topics.size() >= goal


def is_at_work(child: Process, state: Path) -> bool:
    """Whether it has opened its state (or has ended already)."""
    return child.code is not None or any(changed_at(path) > child.started_at for path in state.rglob("LOG"))


def changed_at(path: Path) -> float:
    """When it was last written. RocksDB moves the previous run's log away while it opens: then there is none."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


@pytest.mark.parametrize(("seed", "flavour"), [(1, "native"), pytest.param(2, "lambda", marks=pytest.mark.long)])
def test_exactly_once_on_kafka(kafka: KafkaTopics, name: str, tmp_path: Path, seed: int, flavour: str) -> None:
    given = run_and_kill(kafka, name, tmp_path / "state", seed, "exactly_once_v2", flavour)
    check_every_update(kafka.read(f"{name}-out"), given)
    assert table(kafka.read(f"{name}-counts-changelog")) == by_hand(given)
    assert kafka.committed(name, f"{name}-in") == kafka.ends(f"{name}-in")


def test_at_least_once_on_kafka(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    given = run_and_kill(kafka, name, tmp_path / "state", 3, "at_least_once", "native")
    rows = kafka.read(f"{name}-out")
    check_nothing_lost(rows, given)
    # At the end the changelog equals the output, neither ahead nor behind.
    assert table(kafka.read(f"{name}-counts-changelog")) == table(rows)
    assert kafka.committed(name, f"{name}-in") == kafka.ends(f"{name}-in")


@pytest.mark.parametrize(("seed", "flavour"), [(4, "native"), (5, "lambda")])
def test_exactly_once_embedded(name: str, tmp_path: Path, seed: int, flavour: str) -> None:
    topics = EmbeddedTopics(tmp_path / "broker")
    given = run_and_kill(topics, name, tmp_path / "state", seed, "exactly_once_v2", flavour, EMBEDDED_LINES)
    check_every_update(topics.read(f"{name}-out"), given)
    assert table(topics.read(f"{name}-counts-changelog")) == by_hand(given)


@pytest.mark.parametrize("listener", [pytest.param("SASL_SSL_SCRAM", marks=pytest.mark.long), "MTLS"])
@pytest.mark.xdist_group("secured")
def test_exactly_once_on_three_secured_brokers(secured: KafkaCluster, name: str, tmp_path: Path, listener: str) -> None:
    topics = KafkaTopics(secured.bootstrap(), replicas=3)
    client = secured.client(listener)
    given = run_and_kill(topics, name, tmp_path, 7, "exactly_once_v2", "native", 1000, kills=3, client=client)
    check_every_update(topics.read(f"{name}-out"), given)
    assert table(topics.read(f"{name}-counts-changelog")) == by_hand(given)


def test_at_least_once_embedded(name: str, tmp_path: Path) -> None:
    topics = EmbeddedTopics(tmp_path / "broker")
    given = run_and_kill(topics, name, tmp_path / "state", 6, "at_least_once", "native")
    check_nothing_lost(topics.read(f"{name}-out"), given)


def rows_of(counts: dict[str, list[int]]) -> list[Row]:
    """An output topic built by hand."""
    pairs = [(word, count) for word, all_counts in counts.items() for count in all_counts]
    return [Row(0, n, word.encode(), struct.pack(">q", count)) for n, (word, count) in enumerate(pairs)]


def test_the_check_itself_detects_faults() -> None:
    """A check that can't fail proves nothing: lost, duplicated, out-of-order and foreign updates are detected."""
    given = ["a b", "a"]
    assert by_hand(given) == {"a": 2, "b": 1}
    good = {"a": [1, 2], "b": [1]}
    for broken in ({"a": [2], "b": [1]}, {"a": [1, 1, 2], "b": [1]}, {"a": [2, 1], "b": [1]}, {**good, "c": [1]}):
        with pytest.raises(AssertionError, match="words are wrong"):
            check_every_update(rows_of(broken), given)
    check_every_update(rows_of(good), given)
    assert updates(rows_of(good)) == good
    with pytest.raises(AssertionError, match="too few"):
        check_nothing_lost(rows_of({"a": [1], "b": [1]}), given)
