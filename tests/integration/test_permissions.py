"""The permissions that docs/guide/clusters.md names are enough."""

from __future__ import annotations

from pathlib import Path

from broker.cluster import KafkaCluster
from broker.listeners import DENIED
from broker.wire_admin import Operation, Resource
from counting import consume
from topics import KafkaTopics

import stoatflow as sf

OWN = (Operation.DESCRIBE_CONFIGS, Operation.READ, Operation.WRITE, Operation.CREATE)


def test_the_permissions_of_the_page_are_enough(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    source, sink = f"from-{name}", f"to-{name}"
    for topic in (source, sink):
        secured.create_topic(topic, 2)
    secured.grant(DENIED, Resource.TOPIC, source, Operation.READ)
    secured.grant(DENIED, Resource.TOPIC, sink, Operation.WRITE)
    secured.grant(DENIED, Resource.TOPIC, f"{name}-", *OWN, prefixed=True)
    secured.grant(DENIED, Resource.GROUP, name, Operation.READ)
    secured.grant(DENIED, Resource.TRANSACTIONAL_ID, name, Operation.WRITE, prefixed=True)
    kafka = KafkaTopics(secured.bootstrap())
    kafka.write(source, ["a", "b", "a"])

    builder = sf.StreamsBuilder()
    lines = builder.stream(source, key=str, value=str)
    counts_of = lines.group_by(lambda _, value: value, key=str).count(store=sf.Materialized("counts"))
    counts_of.to_stream().to(sink)
    client = secured.client("SASL_SSL_SCRAM", DENIED)
    consume(sf.StoatFlow(builder.build(), {"application.id": name, "state.dir": str(tmp_path), **client}))

    counts: dict[bytes, int] = {}
    for row in kafka.read(sink):
        assert row.key is not None
        assert row.value is not None
        counts[row.key] = int.from_bytes(row.value, "big")
    assert counts == {b"a": 2, b"b": 1}
