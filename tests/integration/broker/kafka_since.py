"""Tests of what only newer brokers have.

The names in capitals are marks for a test or a parameter. On an older version it is deselected: see `conftest.py`.
"""

from __future__ import annotations

import pytest

from broker.maven_jars import kafka_version

KAFKA_4 = pytest.mark.kafka_since("4.0")
"""Groups of KIP-848, and transactions of KIP-890."""

UNCLEAN_ELECTIONS = pytest.mark.kafka_since("3.9")
"""Before, a KRaft controller elects no replica that is out of sync, whatever a topic's configuration says."""


def is_kafka_since(version: str) -> bool:
    """Whether tests run on this version of Kafka or a newer one."""
    return _numbers(kafka_version()) >= _numbers(version)


def runs_on_this_kafka(item: pytest.Item) -> bool:
    """Whether the version that tests run on is new enough for this test."""
    return all(is_kafka_since(mark.args[0]) for mark in item.iter_markers("kafka_since"))


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]
