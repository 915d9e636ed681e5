"""The permissions that `stoatflow acls` lists are sufficient, and each of them is necessary."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from broker.cluster import KafkaCluster
from broker.listeners import DENIED
from broker.wire_admin import Operation, Resource
from counting import consume
from topics import KafkaTopics

import stoatflow as sf
from stoatflow.cli.describe import load

pytestmark = pytest.mark.xdist_group("secured")

APP = """
import os

import stoatflow as sf

name = os.environ["NAME"]
builder = sf.StreamsBuilder()
words = builder.stream(f"from-{name}", key=str, value=str)
counts = words.group_by(lambda _, value: value, key=str).count(store=sf.Materialized("counts"))
counts.to_stream().to(f"to-{name}", key=str, value=int)
builder.stream(f"from-{name}", key=str, value=str).foreach(lambda key, value: int("" if value == "bad" else "1"),
                                                           on_error=sf.DLQ(f"dead-{name}"))
topology = builder.build()
"""
LONG = os.environ.get("STOATFLOW_TEST_EACH_PERMISSION")
"""If set, each permission is revoked in turn (a minute and a half), instead of only three of them."""


class Application:
    """An application whose user has its own permissions."""

    def __init__(self, secured: KafkaCluster, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.secured, self.name, self.folder = secured, name, folder
        monkeypatch.setenv("NAME", name)
        self.app = folder / "app.py"
        self.app.write_text(APP)
        self.kafka = KafkaTopics(secured.bootstrap())
        for topic in ("from", "to", "dead"):
            secured.create_topic(f"{topic}-{name}", 2)

    def acls(self) -> list[dict[str, Any]]:
        """The permissions that the command lists."""
        command = [sys.executable, "-m", "stoatflow", "acls", str(self.app), "--application-id", self.name, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return list(json.loads(done.stdout))

    def change(self, acls: list[dict[str, Any]], *, grant: bool) -> None:
        """Grant them to the user, or revoke them."""
        for acl in acls:
            change = self.secured.grant if grant else self.secured.revoke
            operations = [Operation[word] for word in acl["operations"]]
            change(DENIED, Resource[acl["resource"]], acl["name"], *operations, prefixed=acl["pattern"] == "PREFIXED")

    def run(self, *values: str) -> None:
        """Write these values, and run until they are read."""
        self.kafka.write(f"from-{self.name}", values)
        client = self.secured.client("SASL_SSL_SCRAM", DENIED)
        config = {"application.id": self.name, "state.dir": str(self.folder / "state"), **client}
        consume(sf.StoatFlow(load(str(self.app), "topology"), {**config, "broker.wait.timeout.ms": 15_000}))

    def lose_state(self) -> None:
        """Simulates another machine."""
        shutil.rmtree(self.folder / "state", ignore_errors=True)

    def counts(self) -> dict[bytes, int]:
        """The last count of each word."""
        rows = self.kafka.read(f"to-{self.name}")
        return {row.key or b"": int.from_bytes(row.value or b"", "big") for row in rows}


@pytest.fixture
def application(secured: KafkaCluster, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Application:
    return Application(secured, name, tmp_path, monkeypatch)


def test_the_listed_acls_are_enough_to_start_and_to_recover(application: Application) -> None:
    acls = application.acls()
    application.change(acls, grant=True)
    try:
        application.run("a", "b", "bad", "a")
        application.lose_state()
        application.run("b", "c")
    finally:
        application.change(acls, grant=False)
    assert application.counts() == {b"a": 2, b"b": 2, b"bad": 1, b"c": 1}
    assert application.kafka.count(f"dead-{application.name}") == 1


def single(acls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Splits them into one operation each."""
    return [{**acl, "operations": [operation]} for acl in acls for operation in acl["operations"]]


def test_a_missing_acl_ends_the_application_and_is_named(application: Application) -> None:
    """Each is revoked before the first start; the state is lost in between, so that all of them are used."""
    name = application.name
    all_of_them = single(application.acls())
    # Without this permission there is a default.
    all_needed = [acl for acl in all_of_them if acl["operations"] != ["DESCRIBE_CONFIGS"]]
    chosen = all_needed if LONG else [all_of_them[0], all_of_them[1], all_of_them[-1]]
    missed = []
    application.change(all_of_them, grant=True)
    try:
        for acl in chosen:
            application.change([acl], grant=False)
            try:
                application.run("a", "bad")
                application.lose_state()
                application.run("a", "bad")
            except sf.AuthorizationError as error:
                # The resource, or the topic under its prefix that was needed.
                if acl["name"].rstrip("-") not in str(error):
                    missed.append(f"{acl}: named wrong in: {error}")
            except sf.StoatFlowError as error:
                missed.append(f"{acl}: ended otherwise: {error!r}")
            else:
                missed.append(f"{acl}: not needed")
            finally:
                application.lose_state()
                application.change([acl], grant=True)
                application.kafka.delete([f"{name}-counts-changelog", f"{name}-offsets", f"{name}-clocks-changelog"])
    finally:
        application.change(all_of_them, grant=False)
    assert not missed, "\n".join(missed)
