"""The secured cluster itself: Kafka's own clients connect through every listener, and anything wrong is rejected.

One cluster and one JVM of clients for all tests of this file.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

# Tests are imported without their folder on the path (`--import-mode=importlib`); the harness is a
# package in it.
sys.path.insert(0, str(Path(__file__).resolve().parent))

from broker import wire
from broker.certificates import KeyPair
from broker.cluster import KafkaCluster
from broker.java_client import JavaClient, RefusedError
from broker.listeners import ALLOWED, DENIED, LISTENERS
from broker.wire_admin import Operation, Resource
from counting import until

SCRIPT = Path(__file__).parent / "broker" / "cluster.py"
SASL_AUTHENTICATION_FAILED = 58
WAYS = [
    (listener.name, mechanism)
    for listener in LISTENERS
    if listener.certificate in {"", "server"}
    for mechanism in (listener.mechanisms or (None,))
]

pytestmark = pytest.mark.xdist_group("secured")


@pytest.fixture(scope="module")
def java(secured: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    """Kafka's clients."""
    with JavaClient(tmp_path_factory.mktemp("java"), list(secured.tokens.endpoints().values())) as running:
        yield running


@pytest.fixture(scope="module")
def topic(secured: KafkaCluster) -> str:
    """A topic for clients that must be rejected."""
    secured.create_topic("refused")
    return "refused"


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_every_listener_accepts_kafka_clients(
    secured: KafkaCluster, java: JavaClient, name: str, listener: str, mechanism: str | None
) -> None:
    client = secured.client(listener, mechanism=mechanism)
    secured.create_topic(name, 3)
    java.write(client, name, "one")
    java.write(client, name, "two")
    assert java.read(client, name) == ["one", "two"]


@pytest.mark.parametrize(
    ("listener", "wrong", "words"),
    [
        ("SASL_SSL_PLAIN", {"sasl.password": "wrong"}, "SaslAuthenticationException"),
        ("SASL_SSL_SCRAM", {"sasl.password": "wrong"}, "SaslAuthenticationException"),
        ("SASL_PLAINTEXT_SCRAM", {"sasl.username": "nobody"}, "SaslAuthenticationException"),
        ("SASL_SSL_SCRAM", {"sasl.mechanism": "PLAIN"}, "UnsupportedSaslMechanismException"),
        ("SASL_SSL_OAUTHBEARER", {"sasl.oauthbearer.client.secret": "wrong"}, "401"),
        ("SSL_EXPIRED", {}, "CertificateExpiredException"),
        ("SSL_OTHER_HOST", {}, "No subject alternative names matching IP address"),
    ],
)
def test_wrong_credentials_are_refused(
    secured: KafkaCluster, java: JavaClient, topic: str, listener: str, wrong: dict[str, str], words: str
) -> None:
    with pytest.raises(RefusedError, match=words):
        java.write({**secured.client(listener), **wrong}, topic, "no")


@pytest.mark.parametrize("listener", ["SSL", "SASL_SSL_SCRAM"])
def test_another_ca_is_refused(secured: KafkaCluster, java: JavaClient, topic: str, listener: str) -> None:
    client = {**secured.client(listener), "ssl.ca.location": str(secured.certificates.other_ca)}
    with pytest.raises(RefusedError, match="PKIX path"):
        java.write(client, topic, "no")


def with_certificate(client: dict[str, str], pair: KeyPair) -> dict[str, str]:
    return {**client, "ssl.certificate.location": str(pair.certificate), "ssl.key.location": str(pair.key)}


def test_mutual_tls_requires_a_certificate_of_its_own_ca(secured: KafkaCluster, java: JavaClient, topic: str) -> None:
    client = secured.client("MTLS")
    for pair in (secured.certificates.client_expired, secured.certificates.client_other_ca):
        with pytest.raises(RefusedError, match="SslAuthenticationException"):
            java.write(with_certificate(client, pair), topic, "no")
    without = {
        key: value for key, value in client.items() if key not in {"ssl.certificate.location", "ssl.key.location"}
    }
    with pytest.raises(RefusedError, match="SslAuthenticationException"):
        java.write(without, topic, "no")


def authenticate(secured: KafkaCluster, token: str) -> int:
    """The error code of a broker for a token, sent without a client, since clients check its expiry first."""
    trusting = ssl.create_default_context(cafile=str(secured.certificates.ca))
    host, port = secured.bootstrap("SASL_SSL_OAUTHBEARER").split(",")[0].split(":")
    with (
        socket.create_connection((host, int(port)), timeout=10) as plain,
        trusting.wrap_socket(plain, server_hostname=host) as secure,
    ):
        shaken = wire.exchange(secure, wire.SASL_HANDSHAKE, 1, wire.nullable_string("OAUTHBEARER"))
        assert shaken.number("h") == 0
        first = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
        answer = wire.exchange(secure, wire.SASL_AUTHENTICATE, 0, struct.pack(">i", len(first)) + first)
        refused = answer.number("h")
        answer.string()
        # An invalid token gets an answer without an error code; the client confirms that it has read it.
        if refused == 0 and answer.data():
            last = wire.exchange(secure, wire.SASL_AUTHENTICATE, 0, struct.pack(">i", 1) + b"\x01")
            refused = last.number("h")
        return refused


@pytest.mark.parametrize("fault", ["expired", "wrong-key", "wrong-issuer", "wrong-audience"])
def test_brokers_refuse_a_wrong_token(secured: KafkaCluster, fault: str) -> None:
    assert authenticate(secured, secured.tokens.token(ALLOWED)) == 0
    assert authenticate(secured, secured.tokens.token(ALLOWED, fault)) == SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize("fault", ["wrong-key", "wrong-issuer", "wrong-audience"])
def test_a_wrong_token_is_refused(secured: KafkaCluster, java: JavaClient, topic: str, fault: str) -> None:
    client = secured.client("SASL_SSL_OAUTHBEARER")
    client["sasl.oauthbearer.token.endpoint.url"] = secured.tokens.endpoint(fault)
    before = len(secured.tokens.served)
    with pytest.raises(RefusedError, match="SaslAuthenticationException"):
        java.write(client, topic, "no")
    assert fault in secured.tokens.served[before:]


@pytest.mark.parametrize("listener", ["MTLS", "SASL_SSL_PLAIN", "SASL_SSL_SCRAM", "SASL_SSL_OAUTHBEARER"])
def test_acls_limit_what_a_user_may_do(secured: KafkaCluster, java: JavaClient, name: str, listener: str) -> None:
    secured.create_topic(name)
    client = secured.client(listener, DENIED)
    with pytest.raises(RefusedError, match="TopicAuthorizationException"):
        java.write(client, name, "no")
    secured.grant(DENIED, Resource.TOPIC, name, Operation.WRITE, Operation.READ)
    java.write(client, name, "yes")
    with pytest.raises(RefusedError, match="GroupAuthorizationException"):
        java.read(client, name)
    secured.grant(DENIED, Resource.GROUP, name, Operation.READ)
    assert java.read(client, name) == ["yes"]
    secured.revoke(DENIED, Resource.TOPIC, name, Operation.WRITE)
    # An idempotent producer needs permission to write to any topic at all.
    with pytest.raises(RefusedError, match="ClusterAuthorizationException"):
        java.write(client, name, "no more")
    secured.revoke(DENIED, Resource.TOPIC, name, Operation.READ)
    secured.revoke(DENIED, Resource.GROUP, name, Operation.READ)


def test_a_renewed_certificate_is_shown_without_a_restart(secured: KafkaCluster, java: JavaClient, name: str) -> None:
    secured.create_topic(name)
    client = secured.client("MTLS")
    pids = [secured.pid(node) for node in secured.nodes]
    host, port = secured.bootstrap("SSL").split(",")[-1].split(":")
    before = ssl.get_server_certificate((host, int(port)))
    secured.renew_certificates()
    assert ssl.get_server_certificate((host, int(port))) != before
    java.write(client, name, "after")
    assert [secured.pid(node) for node in secured.nodes] == pids


def test_the_cluster_goes_on_without_a_leader(secured: KafkaCluster, java: JavaClient, name: str) -> None:
    secured.create_topic(name)
    client = secured.client("SASL_SSL_SCRAM")
    java.write(client, name, "all")
    for down, up in ((secured.kill, secured.start), (secured.pause, secured.resume)):
        # A node that was held up for three seconds may briefly lead nothing.
        until(lambda: secured.leader(name) >= 0, "it has a leader")
        leader = secured.leader(name)
        down(leader)
        try:
            java.write(client, name, down.__name__)
            # Each node learns of it asynchronously.
            until(lambda leader=leader: secured.leader(name) != leader, "another one leads")  # type: ignore[misc]
        finally:
            up(leader)
        secured.wait_until_in_sync(name)
    assert java.read(client, name) == ["all", "kill", "pause"]


def test_the_command_follows_orders_and_leaves_nothing_when_killed() -> None:
    command = [sys.executable, str(SCRIPT), "--print", "--nodes", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdin is not None
        assert served.stdout is not None
        reported = json.loads(served.stdout.readline())
        assert set(reported["clients"]) == {listener.name for listener in LISTENERS}
        assert reported["clients"]["SASL_SSL_SCRAM"]["sasl.username"] == ALLOWED
        for line, answer in (("topic orders 2", "ok"), ("grant bob TOPIC orders READ", "ok"), ("dance", "error: ")):
            served.stdin.write(line + "\n")
            served.stdin.flush()
            assert served.stdout.readline().startswith(answer)
        served.send_signal(signal.SIGKILL)
        assert served.wait(60) == -signal.SIGKILL
    (pid,) = reported["pids"].values()
    folder = Path(reported["certificates"]["ca"]).parents[1]
    deadline = time.monotonic() + 60
    while folder.exists() or is_alive(pid):
        assert time.monotonic() < deadline, "60 s after its owner the broker or its folder is still there"
        time.sleep(0.1)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
