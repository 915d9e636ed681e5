"""`stoatflow run` against a cluster that refuses it: exit code and sentence, and no traceback."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from broker.cluster import KafkaCluster
from broker.listeners import DENIED
from processes import run_with

BUDGET_MS = 8000

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


def waiting(client: Mapping[str, str]) -> dict[str, object]:
    """With a short wait for brokers."""
    return {**client, "broker.wait.timeout.ms": BUDGET_MS}


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
    code, errors = run_with(tmp_path, name, waiting(client))
    check(code, errors, expected, words)
    assert "-secret" not in errors, errors


@pytest.mark.xdist_group("secured")
def test_a_missing_permission_ends_with_its_exit_code(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    secured.create_topic(f"{name}-in", 1)
    code, errors = run_with(tmp_path, name, waiting(secured.client("SASL_SSL_SCRAM", DENIED)))
    check(code, errors, OTHER, (f"{name}-in", "grant this user"))
