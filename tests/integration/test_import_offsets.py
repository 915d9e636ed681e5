"""`stoatflow import-offsets` on real Kafka: an application continues where a consumer group stopped."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from broker.kafka_since import KAFKA_4
from confluent_kafka import Consumer
from members import PROTOCOLS, Member
from topics import KafkaTopics

import stoatflow as sf
from stoatflow.cli import main

APP = """
import stoatflow as sf

builder = sf.StreamsBuilder()
builder.stream("{name}-in", key=str, value=str).to("{name}-out", key=str, value=str)
topology = builder.build()
"""


def consume(address: str, name: str, group: str, protocol: str, records: int) -> None:
    """A consumer that reads this many records, commits them and leaves."""
    reading = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, **reading, **PROTOCOLS[protocol]})
    consumer.subscribe([f"{name}-in"])
    for _ in range(records):
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        consumer.commit(message, asynchronous=False)
    consumer.close()


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=KAFKA_4)])
@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_the_application_continues_at_the_offsets_of_a_group(
    kafka: KafkaTopics,
    name: str,
    tmp_path: Path,
    protocol: str,
    guarantee: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kafka.create(f"{name}-in", 2)
    kafka.create(f"{name}-out", 1)
    kafka.write(f"{name}-in", [f"line {n}" for n in range(50)])
    old = f"{name}-old"
    consume(kafka.address, name, old, protocol, 20)
    at = kafka.committed(old, f"{name}-in")
    assert sum(offset for offset in at.values() if offset > 0) == 20

    app, config = tmp_path / "app.py", tmp_path / "app.json"
    app.write_text(APP.format(name=name), "utf-8")
    config.write_text(f'{{"processing.guarantee": "{guarantee}"}}', "utf-8")
    where = ["--config", str(config), "--application-id", name, "--bootstrap", kafka.address]
    command = ["import-offsets", str(app), "--from-group", old, *where, "--state-dir", str(tmp_path), "--yes"]

    with Member(kafka.address, name, PROTOCOLS[protocol], group=old):
        assert main(command) == 4
        assert f"the group '{old}' has members" in capsys.readouterr().err
        assert set(kafka.committed(name, f"{name}-in").values()) <= {-1001}, "nothing was committed"

    assert main(command) == 0
    given = {
        "application.id": name,
        "bootstrap.servers": kafka.address,
        "state.dir": str(tmp_path),
        "processing.guarantee": guarantee,
    }
    topology = runpy.run_path(str(app))["topology"]
    with sf.StoatFlow(topology, sf.Settings(given, environ={})) as running:
        running.wait_until(caught_up=True, timeout="60s")
    assert len(kafka.read(f"{name}-out")) == 30, "what the group had not read, and nothing of what it had"
    assert kafka.committed(old, f"{name}-in") == at, "the group is as it was"
    # A second import is refused: now there is work that would be lost.
    assert main(command) == 2
    assert "is not new" in capsys.readouterr().err
