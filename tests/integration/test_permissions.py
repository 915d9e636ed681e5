"""The permissions that docs/guide/clusters.md names are enough."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from broker.cluster import KafkaCluster
from broker.listeners import DENIED
from broker.wire_admin import Operation, Resource
from counting import PATIENCE_S, consume, until_running
from topics import KafkaTopics

import stoatflow as sf

OWN = (Operation.DESCRIBE_CONFIGS, Operation.READ, Operation.WRITE, Operation.CREATE)


def prepare(secured: KafkaCluster, name: str) -> tuple[str, str]:
    """Creates topics, and grants the permissions of the page for them."""
    source, sink = f"from-{name}", f"to-{name}"
    for topic in (source, sink):
        secured.create_topic(topic, 2)
    secured.grant(DENIED, Resource.TOPIC, source, Operation.READ)
    secured.grant(DENIED, Resource.TOPIC, sink, Operation.WRITE)
    secured.grant(DENIED, Resource.TOPIC, f"{name}-", *OWN, prefixed=True)
    secured.grant(DENIED, Resource.GROUP, name, Operation.READ)
    secured.grant(DENIED, Resource.TRANSACTIONAL_ID, name, Operation.WRITE, prefixed=True)
    return source, sink


def counting(secured: KafkaCluster, name: str, state: Path) -> sf.StoatFlow:
    builder = sf.StreamsBuilder()
    lines = builder.stream(f"from-{name}", key=str, value=str)
    counts_of = lines.group_by(lambda _, value: value, key=str).count(store=sf.Materialized("counts"))
    counts_of.to_stream().to(f"to-{name}")
    client = secured.client("SASL_SSL_SCRAM", DENIED)
    config = {"application.id": name, "state.dir": str(state), "statestore.cache.max.bytes": 0}
    return sf.StoatFlow(builder.build(), {**config, **client})


def test_the_permissions_of_the_page_are_enough(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    source, sink = prepare(secured, name)
    kafka = KafkaTopics(secured.bootstrap())
    kafka.write(source, ["a", "b", "a"])
    consume(counting(secured, name, tmp_path))

    counts: dict[bytes, int] = {}
    for row in kafka.read(sink):
        assert row.key is not None
        assert row.value is not None
        counts[row.key] = int.from_bytes(row.value, "big")
    assert counts == {b"a": 2, b"b": 1}


@pytest.mark.parametrize(
    ("resource", "of", "operation"),
    [
        (Resource.TOPIC, "to-{}", Operation.WRITE),
        (Resource.TOPIC, "from-{}", Operation.READ),
        (Resource.TRANSACTIONAL_ID, "{}", Operation.WRITE),
        (Resource.GROUP, "{}", Operation.READ),
    ],
    ids=["sink", "source", "transactional id", "group"],
)
def test_a_permission_is_taken_away_in_the_middle_of_transactions(
    secured: KafkaCluster, name: str, tmp_path: Path, resource: Resource, of: str, operation: Operation
) -> None:
    """It ends, says which permission to grant, and with it continues where it was: nothing lost, nothing duplicated."""
    source, sink = prepare(secured, name)
    kafka, written = KafkaTopics(secured.bootstrap()), 0
    prefixed = resource is Resource.TRANSACTIONAL_ID

    def work() -> None:
        nonlocal written
        with counting(secured, name, tmp_path) as app:
            until_running(app)
            began = time.monotonic()
            # There is always a transaction in progress.
            while not app.wait(0.01):
                kafka.write(source, ["word"] * 20)
                written += 20
                if written == 200:
                    secured.revoke(DENIED, resource, of.format(name), operation, prefixed=prefixed)
                assert time.monotonic() - began < PATIENCE_S, "it goes on without the permission"

    with pytest.raises(sf.AuthorizationError, match="grant this user") as refused:
        work()
    assert of.format(name) in str(refused.value)
    secured.grant(DENIED, resource, of.format(name), operation, prefixed=prefixed)
    consume(counting(secured, name, tmp_path))
    rows = kafka.read(sink)
    assert [int.from_bytes(row.value or b"", "big") for row in rows] == list(range(1, written + 1))
