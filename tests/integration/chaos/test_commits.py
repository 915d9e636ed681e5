"""A short run of commits every few milliseconds: `make soak-commits` runs long enough for epochs to run out."""

from __future__ import annotations

from pathlib import Path

from broker.kafka_broker import KafkaBroker
from topics import KafkaTopics

from chaos.commits import CommitsSoak


def test_a_commit_every_few_milliseconds(cluster: KafkaBroker, name: str, tmp_path: Path) -> None:
    soak = CommitsSoak(KafkaTopics(cluster.bootstrap), name, tmp_path, minutes=0.4, interval_ms=7)
    # It raises for an update that is missing, duplicated or out of order. Its memory check needs minutes.
    soak.run()
    assert soak.kills == 1
    assert soak.commits > 200
    assert len(soak.producers) == 2
