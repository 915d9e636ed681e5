"""`stoatflow run` against a cluster that refuses it: exit code and sentence, and no traceback."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from broker.cluster import KafkaCluster
from broker.listeners import DENIED
from processes import Process

BUDGET_MS = 8000

APP = """
import stoatflow as sf

builder = sf.StreamsBuilder()
builder.stream("{name}-in").group_by_key().count(store="counts").to_stream().to("{name}-out")
topology = builder.build()
"""


def ended(tmp_path: Path, name: str, client: Mapping[str, str]) -> tuple[int, str]:
    """Run an application with these client properties from a settings file; returns exit code and standard error."""
    app, config = tmp_path / "app.py", tmp_path / "app.json"
    app.write_text(APP.format(name=name))
    own = {"application.id": name, "state.dir": str(tmp_path / "state"), "broker.wait.timeout.ms": BUDGET_MS}
    config.write_text(json.dumps(own | dict(client)))
    with Process(["-m", "stoatflow", "run", app, "--config", config]) as child:
        return child.wait(), child.errors


CONFIG, OTHER = 2, 1
WRONG: dict[str, tuple[str, str, dict[str, str], int, tuple[str, ...]]] = {
    "password": ("SASL_SSL_SCRAM", "SASL_SSL_SCRAM", {"sasl.password": "wrong"}, OTHER, ("sasl.password",)),
    "CA": ("SSL", "SSL", {"ssl.ca.location": "@other_ca"}, OTHER, ("certificate", "ssl.ca.location")),
    "plaintext against a TLS listener": ("PLAINTEXT", "SSL", {}, CONFIG, ("TLS", "security.protocol")),
    "TLS against a plaintext listener": (
        "SSL", "PLAINTEXT", {}, OTHER, ("during the TLS handshake", "security.protocol"),
    ),
}  # fmt: skip
"""Listener of the client, listener that it connects to, what is wrong, exit code, words on standard error."""


def check(code: int, errors: str, expected: int, words: tuple[str, ...]) -> None:
    """The exit code, each word, and no traceback."""
    assert code == expected, errors
    for word in words:
        assert word in errors, f"{word!r} is not in: {errors}"
    assert "Traceback" not in errors, errors


@pytest.mark.xdist_group("secured")
@pytest.mark.parametrize("what", WRONG)
def test_a_refused_client_ends_with_its_exit_code(secured: KafkaCluster, name: str, tmp_path: Path, what: str) -> None:
    listener, at, changed, expected, words = WRONG[what]
    files = secured.certificates.paths()
    client = secured.client(listener)
    client |= {k: files[v.removeprefix("@")] if v.startswith("@") else v for k, v in changed.items()}
    client["bootstrap.servers"] = secured.bootstrap(at)
    code, errors = ended(tmp_path, name, client)
    check(code, errors, expected, words)
    assert "-secret" not in errors, errors


@pytest.mark.xdist_group("secured")
def test_a_missing_permission_ends_with_its_exit_code(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    secured.create_topic(f"{name}-in", 1)
    code, errors = ended(tmp_path, name, secured.client("SASL_SSL_SCRAM", DENIED))
    check(code, errors, OTHER, (f"{name}-in", "grant this user"))
