"""The transactional ids that an application writes with, according to the broker's log."""

from __future__ import annotations

from pathlib import Path

import pytest
from broker import wire
from counting import until
from topics import KafkaTopics
from transactions import CONTROL, TRANSACTIONAL, batches

import stoatflow as sf

RECORDS = 6


def producers(kafka: KafkaTopics, topic: str) -> list[tuple[int, bool]]:
    """The producer of each batch in the first partition, and whether it is transactional."""
    host, port = kafka.address.rsplit(":", 1)
    found = batches(wire.fetch(host, int(port), topic, 0, 0))
    return [(b.producer, bool(b.attributes & TRANSACTIONAL)) for b in found if not b.attributes & CONTROL]


def passing(kafka: KafkaTopics, name: str, state: Path, settings: dict[str, str]) -> sf.StoatFlow:
    """Copies records from one topic to another."""
    builder = sf.StreamsBuilder()
    builder.stream(f"{name}-in", key=bytes, value=str).to(f"{name}-out", key=bytes, value=str)
    config = {"application.id": name, "bootstrap.servers": kafka.address, "state.dir": state, **settings}
    return sf.StoatFlow(builder.build(), config)


@pytest.mark.parametrize(("guarantee", "ids"), [("exactly_once_v2", 2), ("at_least_once", 1)])
def test_transactions_go_through_two_ids_in_turn(
    kafka: KafkaTopics, name: str, tmp_path: Path, guarantee: str, ids: int
) -> None:
    kafka.create(f"{name}-in")
    kafka.create(f"{name}-out")
    with passing(kafka, name, tmp_path, {"processing.guarantee": guarantee}):
        for n in range(RECORDS):
            kafka.write(f"{name}-in", [str(n)])
            until(lambda n=n: kafka.count(f"{name}-out") == n + 1, "it has come")  # type: ignore[misc]
    found = producers(kafka, f"{name}-out")
    assert len(found) == RECORDS
    assert {in_transaction for _, in_transaction in found} == {guarantee == "exactly_once_v2"}
    # A commit without records may come between two of them: then one id appears twice in a row.
    assert len({producer for producer, _ in found}) == ids


@pytest.mark.parametrize("more", [{}, {"kafka.client": "librdkafka"}], ids=["own client", "librdkafka"])
def test_a_transaction_timeout_beyond_the_brokers_limit_fails_the_start(
    kafka: KafkaTopics, name: str, tmp_path: Path, more: dict[str, str]
) -> None:
    kafka.create(f"{name}-in")
    kafka.create(f"{name}-out")
    app = passing(kafka, name, tmp_path, {"transaction.timeout.ms": "16 min", **more})
    with pytest.raises(sf.ConfigError, match=r"more than the broker's transaction\.max\.timeout\.ms"):
        app.run()
