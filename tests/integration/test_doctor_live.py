"""`stoatflow doctor --live` on real Kafka: each broker-side finding, and none once its cause is fixed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from broker.cluster import KafkaCluster
from broker.listeners import DENIED
from broker.wire_admin import Operation, Resource
from confluent_kafka import Producer
from counting import consume
from topics import KafkaTopics

import stoatflow as sf
from stoatflow.cli import main
from stoatflow.cli.describe import load

APP = """
import stoatflow as sf

builder = sf.StreamsBuilder()
users = builder.table("NAME-users", key=str, value=str, store="users")
orders = builder.stream("NAME-orders", key=str, value=str)
orders.group_by_key().count(store="STORE").to_stream().to("NAME-counts", value=int)
topology = builder.build()
"""


class Application:
    """An application, its settings, and what the doctor reports."""

    def __init__(self, name: str, folder: Path, client: Mapping[str, str], capsys: pytest.CaptureFixture[str]) -> None:
        self.name, self.folder, self._capsys = name, folder, capsys
        self.given = {"application.id": name, "state.dir": str(folder / "state"), **client}
        self.write("counts")

    def write(self, store: str) -> None:
        (self.folder / "app.py").write_text(APP.replace("NAME", self.name).replace("STORE", store))

    def consume(self) -> None:
        consume(sf.StoatFlow(load(str(self.folder / "app.py"), "topology"), self.given))

    def found(self, **changed: str) -> list[dict[str, Any]]:
        given = self.given | {name.replace("_", "."): value for name, value in changed.items()}
        (self.folder / "app.json").write_text(json.dumps(given))
        arguments = ["doctor", str(self.folder / "app.py"), "--config", str(self.folder / "app.json"), "--live"]
        self._capsys.readouterr()
        assert main([*arguments, "--json"]) == 0
        findings: list[dict[str, Any]] = json.loads(self._capsys.readouterr().out)
        # How full this machine's disk is doesn't matter here.
        return [finding for finding in findings if finding["kind"] != "disk"]


@pytest.fixture
def app(kafka: KafkaTopics, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Application:
    """With its topics, in a correct state."""
    kafka.create(f"{name}-users", 1, {"cleanup.policy": "compact"})
    kafka.create(f"{name}-orders", 1)
    kafka.create(f"{name}-counts", 1)
    return Application(name, tmp_path, {"bootstrap.servers": kafka.address}, capsys)


def test_topics(kafka: KafkaTopics, name: str, app: Application) -> None:
    assert app.found() == []
    kafka.configure(f"{name}-users", cleanup_policy="delete")
    kafka.create(f"{name}-counts-changelog", 1)
    kafka.delete([f"{name}-counts"])
    sink, table, changelog = app.found()
    assert (sink["kind"], sink["op"], sink["node"]) == ("topic", "sink", f"{name}-counts")
    assert (table["kind"], table["node"]) == ("table source", f"{name}-users")
    assert f"--bootstrap-server {kafka.address} " in table["next_step"]
    assert f"--entity-name {name}-users --add-config cleanup.policy=compact" in table["next_step"]
    assert (changelog["op"], changelog["node"]) == ("changelog", f"{name}-counts-changelog")
    kafka.delete([f"{name}-orders"])
    missing = app.found()[0]
    assert missing["message"] == f"source topic(s) '{name}-orders' do not exist at {kafka.address}"
    for topic in ("orders", "counts"):
        kafka.create(f"{name}-{topic}", 1)
    for topic in ("users", "counts-changelog"):
        kafka.configure(f"{name}-{topic}", cleanup_policy="compact")
    assert app.found() == []


def test_lost_positions_and_orphaned_topics(kafka: KafkaTopics, name: str, app: Application) -> None:
    kafka.write(f"{name}-orders", ["a", "b"], key="k")
    app.consume()
    assert app.found() == []
    kafka.write(f"{name}-orders", ["c", "d", "e"], key="k")
    kafka.empty(f"{name}-orders")
    (lost,) = app.found()
    assert (lost["kind"], lost["node"]) == ("position", f"{name}-orders")
    assert "read up to offset 2, and the first one that is there is 5: 3 offsets were removed" in lost["message"]
    app.write("tallies")
    (_, orphans) = app.found()
    assert orphans["kind"] == "orphans"
    assert f"the topic {name}-counts-changelog, rows of 'counts' in {app.folder}/state" in orphans["message"]
    app.write("counts")
    kafka.write(f"{name}-orders", ["f"], key="k")
    app.consume()
    assert app.found() == []


def test_open_transactions_of_others(
    kafka: KafkaTopics, name: str, app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoatflow.doctor.broker.AGAIN_AFTER_S", 0.2)
    stranger = Producer({"bootstrap.servers": kafka.address, "transactional.id": f"{name}-stranger", "log_level": 0})
    stranger.init_transactions(30)
    stranger.begin_transaction()
    stranger.produce(f"{name}-orders", b"open")
    assert stranger.flush(30) == 0
    assert [finding["kind"] for finding in app.found()] == ["open transaction"]
    stranger.abort_transaction(30)
    assert app.found() == []


@pytest.mark.xdist_group("secured")
def test_a_client_without_permissions(
    secured: KafkaCluster, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    users, orders, counts = (f"{name}-{topic}" for topic in ("users", "orders", "counts"))
    for topic in (users, orders, counts):
        secured.create_topic(topic, 1)
    KafkaTopics(secured.bootstrap()).write(orders, ["a"])
    app = Application(name, tmp_path, secured.client("SASL_SSL_SCRAM", DENIED), capsys)
    wrong = {
        "sasl.password": {"sasl_password": "wrong"},
        "ssl.ca.location": {"ssl_ca_location": secured.certificates.paths()["other_ca"]},
    }
    for output, changed in wrong.items():
        (only,) = app.found(**changed)
        assert (only["kind"], only["op"]) == ("broker", "")
        assert output in only["next_step"], only

    refused = app.found()
    assert {finding["kind"] for finding in refused} == {"permission"}
    assert {(finding["op"], finding["node"]) for finding in refused} >= {
        ("source", users),
        ("source", orders),
        ("sink", counts),
    }
    assert [finding["node"] for finding in refused].count(users) == 1
    secured.grant(DENIED, Resource.TOPIC, f"{name}-", Operation.DESCRIBE, prefixed=True)
    group, unread = app.found()
    assert (group["kind"], group["op"]) == ("permission", "")
    assert f"group '{name}'" in group["message"]
    assert (unread["kind"], unread["op"], unread["node"]) == ("permission", "source", orders)
    secured.grant(DENIED, Resource.GROUP, name, Operation.READ)
    secured.grant(DENIED, Resource.TOPIC, orders, Operation.READ)
    assert app.found() == []
    # Until now it could not see whether topics are compacted.
    secured.grant(DENIED, Resource.TOPIC, users, Operation.DESCRIBE_CONFIGS)
    (table,) = app.found()
    assert (table["kind"], table["node"]) == ("table source", users)
