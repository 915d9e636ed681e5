"""Addresses that don't respond, and names with several addresses: the others are tried meanwhile."""

from __future__ import annotations

import socket
import time
from pathlib import Path

from broker.kafka_broker import KafkaBroker
from counting import by_hand, consume, lines, make, table
from topics import KafkaTopics


def test_the_first_bootstrap_address_is_unreachable(
    cluster: KafkaBroker, kafka: KafkaTopics, name: str, tmp_path: Path
) -> None:
    given = lines(1, 100)
    for topic in (f"{name}-in", f"{name}-out"):
        kafka.create(topic, 3)
    kafka.write(f"{name}-in", given)
    port = cluster.bootstrap.rpartition(":")[2]
    with socket.socket() as hole, socket.socket() as first:
        # Its queue is full after the first connection, so no other one is ever established.
        hole.bind(("127.0.0.1", 0))
        hole.listen(0)
        first.connect(hole.getsockname())
        servers = f"127.0.0.1:{hole.getsockname()[1]},localhost:{port}"
        began = time.monotonic()
        consume(make(servers, name, tmp_path))
        took = time.monotonic() - began
    assert table(kafka.read(f"{name}-out")) == by_hand(given)
    assert took < 40, f"each silent address costs a moment at most, not {took} s"
