"""Shared by the tests of the benchmarks: one real broker for all tests marked `broker`, and imports of the modules.

Needs Java and Maven if a test uses the broker. Owns that broker, and starts it only if it is used.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Tests are imported without their folder on the path (`--import-mode=importlib`).
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[2] / "tests" / "integration")]

from broker.kafka_broker import KafkaBroker  # noqa: E402


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    """A real Kafka broker, shared since its start takes longer than most tests. Each test has its own topics."""
    with KafkaBroker() as running:
        yield running
