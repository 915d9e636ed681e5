"""One JVM with Kafka Streams for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.kafka_streams import Oracle


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    with Oracle() as running:
        yield running
