"""What the tests of the benchmarks share: one real broker for all that are marked `broker`, and the way to the modules.

Takes: Java and Maven, where a test asks for the broker. Owns: that broker. Never: starts it for those that do not.
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
    """A real Kafka broker: it takes longer to start than most tests take. Each test has topics of its own."""
    with KafkaBroker() as running:
        yield running
