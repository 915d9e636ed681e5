"""Tests of what only newer brokers have.

`KAFKA_4` is a mark for a test or a parameter. On an older version it is deselected: see `conftest.py`.
"""

from __future__ import annotations

import pytest

from broker.maven_jars import kafka_version

KAFKA_4 = pytest.mark.kafka_since("4.0")
"""Groups of KIP-848, and transactions of KIP-890."""


def runs_on_this_kafka(item: pytest.Item) -> bool:
    """Whether the version that tests run on is new enough for this test."""
    return all(_numbers(kafka_version()) >= _numbers(mark.args[0]) for mark in item.iter_markers("kafka_since"))


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]
