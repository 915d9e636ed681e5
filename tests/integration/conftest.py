"""What the integration tests share: a real broker, a secured cluster, and names that no other test uses."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

# Tests are imported without their folder on the path (`--import-mode=importlib`).
sys.path.insert(0, str(Path(__file__).resolve().parent))

from broker.cluster import KafkaCluster
from broker.kafka_broker import KafkaBroker
from broker.kafka_since import runs_on_this_kafka
from broker.schema_registry import SchemaRegistryServer
from confluent_kafka.schema_registry import SchemaRegistryClient
from topics import KafkaTopics

_numbers = count(1)
# SIGTERM ends the tests like Ctrl-C, so that their brokers and applications end, too.
signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects tests of what the version of Kafka doesn't have."""
    left_out = [item for item in items if not runs_on_this_kafka(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if runs_on_this_kafka(item)]


@pytest.fixture(scope="session")
def cluster() -> Iterator[KafkaBroker]:
    """A real Kafka broker. Tests that stop it use their own."""
    with KafkaBroker() as running:
        yield running


@pytest.fixture(scope="session")
def secured() -> Iterator[KafkaCluster]:
    """Three brokers with TLS, SASL and ACLs. Its tests are in one xdist group, so that they share it."""
    with KafkaCluster() as running:
        yield running


@pytest.fixture(scope="session")
def server() -> Iterator[SchemaRegistryServer]:
    """A schema registry: each test has its own subjects. Its tests are in one xdist group, so that they share it."""
    with SchemaRegistryServer() as running:
        yield running


@pytest.fixture
def client(server: SchemaRegistryServer) -> Iterator[SchemaRegistryClient]:
    """Confluent's client of that registry."""
    with SchemaRegistryClient({"url": server.url}) as made:
        yield made


@pytest.fixture(scope="session")
def kafka(cluster: KafkaBroker) -> KafkaTopics:
    """The broker's topics."""
    return KafkaTopics(cluster.bootstrap)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A unique name for the topics and applications of this test."""
    return f"{re.sub(r'[^a-z0-9]+', '-', request.node.name.lower()).strip('-')[:60]}-{next(_numbers)}"
