"""One real broker and one live application for all tests of the console, and a browser for each of them."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# The broker and its topics are part of the tests that need a broker, which are no package.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from broker.kafka_broker import KafkaBroker
from topics import KafkaTopics

import stoatflow as sf
from console.chromium import Page
from console.shop import shop

# SIGTERM ends the tests like Ctrl-C, so that their broker and applications end, too.
signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaTopics]:
    """Topics of a real broker."""
    with KafkaBroker() as broker:
        yield KafkaTopics(broker.bootstrap)
        # A clean stop takes seconds, and its data isn't used again.
        broker.kill()


@pytest.fixture(scope="session")
def app(kafka: KafkaTopics, tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.StoatFlow]:
    """An application with constant input."""
    with shop(kafka, tmp_path_factory.mktemp("shop")) as running:
        yield running


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    """A browser that has reported no error in the end, and asked no other host."""
    with Page(tmp_path / "profile") as opened:
        yield opened
        assert opened.complaints == []
        others = opened.run(
            "performance.getEntriesByType('resource').map(r => r.name).filter(n => !n.startsWith(location.origin))"
        )
        assert others == [], "it asked another host"
