"""TLS, SASL and permissions: a word count through each listener, and an error message for each thing that is wrong."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from broker.certificates import KEY_PASSWORD, KeyPair
from broker.cluster import KafkaCluster
from broker.listeners import ALLOWED, DENIED, LISTENERS
from broker.wire_admin import Operation, Resource
from counting import by_hand, check_every_update, consume, lines, make, table
from topics import KafkaTopics

import stoatflow as sf

PARTITIONS = 3
BUDGET_MS = 8000
# Beyond the budget: what a busy machine takes to start and to end.
GRACE_S = 60.0
WAYS = [
    (listener.name, mechanism)
    for listener in LISTENERS
    if listener.certificate in {"", "server"} and listener.name != "PLAINTEXT"
    for mechanism in (listener.mechanisms or (None,))
]

pytestmark = pytest.mark.xdist_group("secured")


def settings(client: Mapping[str, str]) -> dict[str, str]:
    """In the form that `make` takes: without the address, and with underscores."""
    return {key.replace(".", "_"): value for key, value in client.items() if key != "bootstrap.servers"}


def make_secured(client: Mapping[str, str], name: str, state: Path, **more: object) -> sf.StoatFlow:
    """A word count with the properties of this client."""
    return make(client["bootstrap.servers"], name, state, "native", **settings(client), **more)


def given_lines(secured: KafkaCluster, name: str, count: int = 500) -> list[str]:
    """Input topic with lines, output topic empty, on all brokers."""
    for topic in (f"{name}-in", f"{name}-out"):
        secured.create_topic(topic, PARTITIONS)
    made = lines(1, count)
    KafkaTopics(secured.bootstrap()).write(f"{name}-in", made)
    return made


def check_all(secured: KafkaCluster, name: str, given: list[str]) -> None:
    """Output and changelog agree with the count by hand."""
    kafka = KafkaTopics(secured.bootstrap())
    check_every_update(kafka.read(f"{name}-out"), given)
    assert table(kafka.read(f"{name}-counts-changelog")) == by_hand(given)


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_word_count_through_every_listener(
    secured: KafkaCluster, name: str, tmp_path: Path, listener: str, mechanism: str | None
) -> None:
    given = given_lines(secured, name)
    consume(make_secured(secured.client(listener, mechanism=mechanism), name, tmp_path))
    check_all(secured, name, given)


@pytest.mark.parametrize(("listener", "mechanism"), [way for way in WAYS if way[1] != "OAUTHBEARER"])
def test_librdkafka_through_the_same_listeners(
    secured: KafkaCluster, name: str, tmp_path: Path, listener: str, mechanism: str | None
) -> None:
    given = given_lines(secured, name, 100)
    client = secured.client(listener, mechanism=mechanism)
    consume(make_secured(client, name, tmp_path, kafka_client="librdkafka", producer_linger_ms=1))
    check_all(secured, name, given)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("password with SCRAM", ("refuses this user",)),
        ("CA", ("certificate", "ssl.ca.location")),
        ("host name", ("certificate",)),
    ],
)
def test_a_misconfigured_librdkafka_has_an_error_message(
    secured: KafkaCluster, name: str, tmp_path: Path, what: str, words: tuple[str, ...]
) -> None:
    wrong, files = WRONG[what], secured.certificates.paths()
    client = {key: value for key, value in secured.client(wrong.listener).items() if key not in wrong.without}
    client |= {k: files[v.removeprefix("@")] if v.startswith("@") else v for k, v in wrong.changed.items()}
    error = failure(make_secured(client, name, tmp_path, broker_wait_timeout_ms=BUDGET_MS, kafka_client="librdkafka"))
    message = str(error)
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"
    assert "-secret" not in message, message


def test_at_least_once_too(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    given = given_lines(secured, name)
    consume(make_secured(secured.client("SASL_SSL_SCRAM"), name, tmp_path, processing_guarantee="at_least_once"))
    check_all(secured, name, given)


def test_a_key_with_a_password(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    given = given_lines(secured, name)
    client = with_certificate(secured.client("MTLS"), secured.certificates.client_encrypted)
    consume(make_secured({**client, "ssl.key.password": KEY_PASSWORD}, name, tmp_path))
    check_all(secured, name, given)


def with_certificate(client: Mapping[str, str], pair: KeyPair) -> dict[str, str]:
    return {**client, "ssl.certificate.location": str(pair.certificate), "ssl.key.location": str(pair.key)}


@dataclass(frozen=True)
class Wrong:
    """A rejected client: how it differs from one that may connect, and what the error must say."""

    listener: str
    words: tuple[str, ...]
    """All of these words are in the error."""
    changed: Mapping[str, str] = field(default_factory=dict)
    """`@NAME` is a file of the certificates."""
    at: str = ""
    """The listener that it connects to instead of its own."""
    without: tuple[str, ...] = ()


CERTIFICATE = ("ssl.certificate.location", "ssl.key.location")
WRONG = {
    "password with PLAIN": Wrong("SASL_SSL_PLAIN", ("sasl.password",), {"sasl.password": "wrong"}),
    "password with SCRAM": Wrong("SASL_SSL_SCRAM", ("sasl.password",), {"sasl.password": "wrong"}),
    "user": Wrong("SASL_PLAINTEXT_SCRAM", ("sasl.username",), {"sasl.username": "nobody"}),
    "mechanism": Wrong("SASL_SSL_SCRAM", ("PLAIN", "SCRAM-SHA-512", "sasl.mechanism"), {"sasl.mechanism": "PLAIN"}),
    "CA": Wrong("SSL", ("certificate", "ssl.ca.location"), {"ssl.ca.location": "@other_ca"}),
    "CA with SASL": Wrong("SASL_SSL_SCRAM", ("certificate", "ssl.ca.location"), {"ssl.ca.location": "@other_ca"}),
    "host name": Wrong("SSL_OTHER_HOST", ("certificate", "127.0.0.1", "elsewhere.example")),
    "expired certificate": Wrong("SSL_EXPIRED", ("certificate", "expired")),
    "no certificate of the client": Wrong("MTLS", ("ssl.certificate.location",), without=CERTIFICATE),
    "certificate of the client by another CA": Wrong(
        "MTLS", ("certificate of this client",),
        {CERTIFICATE[0]: "@client_other_ca_certificate", CERTIFICATE[1]: "@client_other_ca_key"},
    ),
    "expired certificate of the client": Wrong(
        "MTLS", ("certificate of this client",),
        {CERTIFICATE[0]: "@client_expired_certificate", CERTIFICATE[1]: "@client_expired_key"},
    ),
    "TLS against a plaintext listener": Wrong("SSL", ("during the TLS handshake", "security.protocol"), at="PLAINTEXT"),
    "plaintext against a TLS listener": Wrong("PLAINTEXT", ("TLS", "security.protocol"), at="SSL"),
    "SASL where there is none": Wrong("SASL_PLAINTEXT_SCRAM", ("SASL", "security.protocol"), at="PLAINTEXT"),
    # The broker doesn't answer: it closes the connection.
    "no SASL where it is asked for": Wrong(
        "PLAINTEXT", ("closed the connection", "SASL", "security.protocol"), at="SASL_PLAINTEXT_SCRAM"
    ),
    "secret of the token endpoint": Wrong(
        "SASL_SSL_OAUTHBEARER", ("token", "401"), {"sasl.oauthbearer.client.secret": "wrong"}
    ),
}  # fmt: skip


def failure(app: sf.StoatFlow) -> sf.StoatFlowError:
    """Start it and return the error that ends it, in time."""
    began = time.monotonic()
    app.start()
    try:
        with pytest.raises(sf.StoatFlowError) as raised:
            assert app.wait(BUDGET_MS / 1000 + GRACE_S), "it should have failed"
        assert time.monotonic() - began < BUDGET_MS / 1000 + GRACE_S
        assert raised.value.next_step in str(raised.value)
        return raised.value
    finally:
        app.close()


@pytest.mark.parametrize("what", WRONG)
def test_each_misconfiguration_has_its_own_error_message(
    secured: KafkaCluster, name: str, tmp_path: Path, what: str
) -> None:
    wrong, files = WRONG[what], secured.certificates.paths()
    client = {key: value for key, value in secured.client(wrong.listener).items() if key not in wrong.without}
    client |= {k: files[v.removeprefix("@")] if v.startswith("@") else v for k, v in wrong.changed.items()}
    client["bootstrap.servers"] = secured.bootstrap(wrong.at or wrong.listener)
    error = failure(make_secured(client, name, tmp_path, broker_wait_timeout_ms=BUDGET_MS))
    message = str(error)
    for word in wrong.words:
        assert word in message, f"{word!r} is not in: {message}"
    assert "-secret" not in message, message
    assert f"{name}-counts-changelog" not in KafkaTopics(secured.bootstrap()).topics()


@pytest.mark.parametrize("fault", ["expired", "wrong-key", "wrong-issuer"])
def test_a_token_that_is_refused(secured: KafkaCluster, name: str, tmp_path: Path, fault: str) -> None:
    client = secured.client("SASL_SSL_OAUTHBEARER")
    client["sasl.oauthbearer.token.endpoint.url"] = secured.tokens.endpoint(fault)
    before = len(secured.tokens.served)
    error = failure(make_secured(client, name, tmp_path, broker_wait_timeout_ms=BUDGET_MS))
    assert "token" in str(error)
    assert fault in secured.tokens.served[before:]


def test_a_secret_with_special_characters_is_url_encoded(
    secured: KafkaCluster, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token server decodes the header, as RFC 6749 asks; Java's clients encode it only with this property."""
    special = "50%25 + x/y: é"
    monkeypatch.setitem(secured.tokens.clients, ALLOWED, special)
    client = {**secured.client("SASL_SSL_OAUTHBEARER"), "sasl.oauthbearer.client.secret": special}
    error = failure(make_secured(client, name, tmp_path, broker_wait_timeout_ms=BUDGET_MS))
    assert "401" in str(error)
    assert special not in str(error)
    given = given_lines(secured, name, 100)
    consume(make_secured({**client, "sasl.oauthbearer.header.urlencode": "true"}, name, tmp_path))
    check_all(secured, name, given)


@pytest.mark.parametrize("listener", ["MTLS", "SASL_SSL_SCRAM"])
def test_a_missing_permission_names_what_is_to_be_granted(
    secured: KafkaCluster, name: str, tmp_path: Path, listener: str
) -> None:
    given = given_lines(secured, name, 100)
    client = secured.client(listener, DENIED)
    error = failure(make_secured(client, name, tmp_path, broker_wait_timeout_ms=BUDGET_MS))
    assert isinstance(error, sf.AuthorizationError), repr(error)
    assert f"{name}-in" in str(error)
    for resource in (Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID):
        secured.grant(DENIED, resource, name, Operation.ALL, prefixed=True)
    consume(make_secured(client, name, tmp_path))
    check_all(secured, name, given)


@pytest.mark.long
def test_the_application_survives_renewed_broker_certificates(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    given = given_lines(secured, name)
    with make_secured(secured.client("SASL_SSL_SCRAM"), name, tmp_path) as app:
        secured.renew_certificates()
        secured.restart(secured.leader(f"{name}-in"))
        secured.wait_until_in_sync(f"{name}-in")
        kafka = KafkaTopics(secured.bootstrap())
        more = lines(2, 300)
        kafka.write(f"{name}-in", more)
        began = time.monotonic()
        while kafka.committed(name, f"{name}-in") != kafka.ends(f"{name}-in"):
            assert not app.wait(0.1), "it ended by itself"
            assert time.monotonic() - began < 60.0, "not consumed within 60 s"
    check_all(secured, name, given + more)
