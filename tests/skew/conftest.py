"""One real broker, and one JVM with Kafka Streams, for all tests of this folder."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

# Starting a broker and reading topics is part of the tests that need a broker, which are no package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from broker.kafka_broker import KafkaBroker
from topics import KafkaTopics

from skew.streams import KafkaStreams

_numbers = count(1)
# Whoever ends the tests also ends their broker and applications, as with Ctrl-C.
signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaTopics]:
    """Topics of a real broker."""
    settings = {
        "log.segment.delete.delay.ms": "1000",
        # Changelogs of windows have a retention of a day, and these records are years old: the cleaner runs
        # every 15 s, and would delete them between two applications.
        "log.cleaner.backoff.ms": "3600000",
    }
    with KafkaBroker(settings=settings) as running:
        yield KafkaTopics(running.bootstrap)
        # Nobody needs its data: a clean shutdown takes longer than a case.
        running.kill()


@pytest.fixture(scope="session")
def jvm() -> Iterator[KafkaStreams]:
    """Applications of Kafka Streams."""
    with KafkaStreams() as running:
        yield running


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A unique name for the topics and applications of this test."""
    return f"{re.sub(r'[^a-z0-9]+', '-', request.node.name.lower()).strip('-')[-40:]}-{next(_numbers)}"
