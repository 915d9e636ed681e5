"""A broker that missed an election still acts as the leader: a start doesn't trust the log ends that it reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from broker.partitioned_cluster import PartitionedCluster
from counting import PATIENCE_S, by_hand, check_every_update, consume, lines, make, table, until, until_running
from topics import KafkaTopics

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def parted() -> Iterator[PartitionedCluster]:
    with PartitionedCluster() as cluster:
        yield cluster


def leads(parted: PartitionedCluster, node: int, changelog: str) -> bool:
    parted.create_topic(changelog, 1, {"cleanup.policy": "compact"})
    return parted.leader(changelog) == node


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_start_asks_a_stale_leader(parted: PartitionedCluster, name: str, tmp_path: Path, guarantee: str) -> None:
    """Only that broker is in the bootstrap list. The second of three runs is without it; the third has no state."""
    # The first node is asked before others.
    stale = parted.nodes[0]
    name = next(each for n in range(50) if leads(parted, stale, f"{(each := f'{name}-{n}')}-counts-changelog"))
    topic, out, changelog = f"{name}-in", f"{name}-out", f"{name}-counts-changelog"
    for each in (topic, out):
        parted.create_topic(each)
    given = lines(1, 100)
    KafkaTopics(parted.bootstrap()).write(topic, given)
    consume(make(parted.bootstrap(), name, tmp_path, processing_guarantee=guarantee))
    others = KafkaTopics(parted.bootstrap(without=stale))
    only = next(address for address in parted.bootstrap().split(",") if address not in parted.bootstrap(without=stale))
    parted.cut_off(stale)
    try:
        until(lambda: parted.leader(changelog) not in {stale, -1}, "another one leads", PATIENCE_S)
        for seed in (2, 3):
            more = lines(seed, 100)
            given += more
            others.write(topic, more)
            state = tmp_path if seed == 2 else tmp_path / "elsewhere"
            servers = parted.bootstrap(without=stale) if seed == 2 else only
            with make(servers, name, state, processing_guarantee=guarantee) as app:
                until_running(app)
                until(lambda: others.committed(name, topic) == others.ends(topic), "all is committed")
            assert parted.leader_reported_by(stale, changelog) == stale, "it knows of the election"
        check_every_update(others.read(out), given)
        assert table(others.read(changelog)) == by_hand(given)
    finally:
        parted.join()
        parted.wait_until_in_sync(changelog)
