"""Another producer's open transaction on a source: it is reported, with its owner and how to end it."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

from broker.broker_config import free_port_numbers
from confluent_kafka import Producer
from processes import Process
from topics import KafkaTopics

APP = """
import sys
import stoatflow as sf

builder = sf.StreamsBuilder()
builder.stream(sys.argv[1] + "-in", key=bytes, value=str).to(sys.argv[1] + "-out", key=bytes, value=str)
config = {
    "application.id": sys.argv[1], "bootstrap.servers": sys.argv[2], "state.dir": sys.argv[3],
    "admin.listen": "127.0.0.1:" + sys.argv[4],
}
sf.StoatFlow(builder.build(), config).run()
"""


def test_an_open_transaction_is_reported_with_producer_and_command(
    kafka: KafkaTopics, name: str, tmp_path: Path
) -> None:
    kafka.create(f"{name}-in", 2)
    kafka.create(f"{name}-out", 2)
    script = tmp_path / "app.py"
    script.write_text(APP, "utf-8")
    (port,) = free_port_numbers(1)
    stranger = Producer(
        {
            "bootstrap.servers": kafka.address,
            "transactional.id": f"{name}-stranger",
            "transaction.timeout.ms": 300_000,
            "log_level": 0,
        }
    )
    stranger.init_transactions(30)
    stranger.begin_transaction()
    stranger.produce(f"{name}-in", b"open", partition=1)
    assert stranger.flush(30) == 0
    kafka.write(f"{name}-in", ["a", "b", "c", "d"])  # two records behind it
    with Process([script, name, kafka.address, tmp_path / "state", port]) as child:
        child.until(lambda: kafka.count(f"{name}-out") == 2, "what can be read is read")
        child.until(lambda: "holds this source back" in child.errors, "it is told")
        metrics = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60).read().decode()
        reported = next(line for line in child.errors.splitlines() if "holds this source back" in line)
        where = f"--topic {name}-in --partition 1 --start-offset 0"
        assert f"kafka-transactions.sh --bootstrap-server {kafka.address} abort {where}" in reported
        assert '"producer_id":' in reported, reported
        held = re.findall(r'^stoatflow_partition_held_back_records\{.*partition="(\d)"\} (\d+)$', metrics, re.MULTILINE)
        assert dict(held) == {"0": "0", "1": "3"}
        (open_one,) = asked(script, kafka, name)
        assert open_one["kind"] == "open transaction"
        assert f"abort {where}" in str(open_one["next_step"])
        producer = re.findall(r'"producer_id":"?(\d+)', reported)[0]
        assert f"partition 1 is held back: producer {producer} " in str(open_one["message"])
        stranger.abort_transaction(30)
        child.until(lambda: kafka.count(f"{name}-out") == 4, "the rest is read")
    assert asked(script, kafka, name) == []


def asked(script: Path, kafka: KafkaTopics, name: str) -> list[dict[str, object]]:
    """The doctor's report on the same topology."""
    loaded = script.with_name("topology.py")
    loaded.write_text(
        APP.split("config =", maxsplit=1)[0].replace("sys.argv[1]", repr(name)) + "topology = builder.build()\n"
    )
    with Process(["-m", "stoatflow", "doctor", loaded, "--bootstrap", kafka.address, "--json"]) as doctor:
        assert doctor.wait() == 0, doctor.reported()
        found: list[dict[str, object]] = json.loads("\n".join(doctor.lines))
        return found
