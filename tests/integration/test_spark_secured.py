"""Load, the twins, reconcile and hand-over through TLS and SASL, with the same settings as the engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import spark_secured_app
from broker.cluster import KafkaCluster
from counting import consume
from topics import KafkaTopics

import stoatflow as sf

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("secured")]
PROGRAM = Path(__file__).with_name("spark_secured.py")
RECORDS = 1_000
SPEC = """seed = 3
[topics.{name}-orders]
records = {records}
partitions = 2
key = {{ kind = "uniform", count = 20, prefix = "user-" }}
[topics.{name}-orders.fields]
amount = {{ kind = "int", high = 99 }}
"""


class Secured:
    """An application behind a secured listener."""

    def __init__(self, cluster: KafkaCluster, listener: str, name: str, folder: Path) -> None:
        self.kafka, self.name, self.folder = KafkaTopics(cluster.bootstrap()), name, folder
        self.client: Mapping[str, str] = cluster.client(listener)
        for topic in ("orders", "large", "counts"):
            cluster.create_topic(f"{name}-{topic}", 2)
        # Spark writes topics at least once.
        self.settings = {"application.id": name, "state.dir": str(folder / "state"), **self.client}
        lines = [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in self.settings.items()]
        (folder / "app.toml").write_text("\n".join(lines), "utf-8")
        (folder / "client.json").write_text(json.dumps(self.client), "utf-8")
        (folder / "load.toml").write_text(SPEC.format(name=name, records=RECORDS), "utf-8")

    def spark(self, *steps: str) -> str:
        """Returns the output of the commands."""
        command = [sys.executable, str(PROGRAM), str(self.folder), *steps]
        env = {**os.environ, "SECURED": self.name}
        ended = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=env)
        assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
        for secret in ("sasl.password", "sasl.oauthbearer.client.secret"):
            if value := self.client.get(secret):
                assert value not in ended.stdout + ended.stderr
        return ended.stdout

    def engine(self) -> None:
        """Let the application process all input."""
        consume(sf.StoatFlow(spark_secured_app.build(self.name), self.settings))

    def by_hand(self) -> Counter[bytes]:
        """The number of records of each user."""
        return Counter(row.key for row in self.kafka.read(f"{self.name}-orders") if row.key is not None)

    def counts(self) -> dict[bytes, int]:
        """The last count of each user."""
        rows = self.kafka.read(f"{self.name}-counts")
        return {row.key: int.from_bytes(row.value, "big") for row in rows if row.key and row.value}


def test_all_commands_through_scram(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    app = Secured(secured, "SASL_SSL_SCRAM", name, tmp_path)
    app.spark("load")
    app.engine()
    assert app.counts() == app.by_hand()
    assert sum(app.by_hand().values()) == RECORDS
    output = app.spark("reconcile", "batch", "load", "there", "stream", "load", "back")
    assert "OK: the topics hold what the input demands" in output
    table = pq.read_table(tmp_path / "results" / "stores" / "per-user").to_pylist()
    assert sum(int.from_bytes(row["value"], "big") for row in table) == RECORDS
    # Records of the second load were processed by Spark, those of the third by the application.
    assert sum(app.counts().values()) == 2 * RECORDS
    app.engine()
    assert app.counts() == app.by_hand()
    assert sum(app.by_hand().values()) == 3 * RECORDS


@pytest.mark.parametrize("listener", ["MTLS", "SASL_SSL_PLAIN", "SASL_SSL_OAUTHBEARER"])
def test_other_listeners(secured: KafkaCluster, name: str, tmp_path: Path, listener: str) -> None:
    app = Secured(secured, listener, name, tmp_path)
    app.spark("load")
    app.engine()
    assert "OK: the topics hold what the input demands" in app.spark("reconcile", "batch")


def test_a_wrong_password_is_said(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    app = Secured(secured, "SASL_SSL_SCRAM", name, tmp_path)
    wrong = {**app.client, "sasl.password": "not-the-password"}
    (tmp_path / "client.json").write_text(json.dumps(wrong), "utf-8")
    with pytest.raises(AssertionError, match="SaslAuthenticationException"):
        app.spark("load")
