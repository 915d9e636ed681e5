"""What docs/guide/clusters.md offers: sessions that end, replicas nearby, workers, PEM texts, files, tokens."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from broker.cluster import KafkaCluster
from counting import consume, until
from processes import Process
from topics import KafkaTopics

import stoatflow as sf

HERE = Path(__file__).parent
pytestmark = pytest.mark.xdist_group("secured")


def copying(client: dict[str, str], name: str, state: Path) -> Process:
    """The application, with what its Kafka client logs."""
    config = {"application.id": name, "state.dir": str(state), **client}
    return Process([HERE / "copying.py", json.dumps(config)], {"RUST_LOG": "warn,stoatflow::kafka=debug"})


def copied(kafka: KafkaTopics, name: str) -> list[bytes | None]:
    """The values that came out."""
    return [row.value for row in kafka.read(f"{name}-out")]


def test_a_session_is_renewed_before_the_broker_ends_it(name: str, tmp_path: Path) -> None:
    lifetime_s, rounds, lives = 2, 8, 4
    with KafkaCluster(nodes=1, settings={"connections.max.reauth.ms": str(lifetime_s * 1000)}) as cluster:
        for topic in ("in", "out"):
            cluster.create_topic(f"{name}-{topic}")
        kafka = KafkaTopics(cluster.bootstrap())

        def live(life: int) -> str:
            """Some records, over several sessions; gives what was logged."""
            with copying(cluster.client("SASL_SSL_SCRAM"), name, tmp_path) as running:
                running.until(lambda: "RUNNING" in running.lines, "it runs")
                for number in range(life * rounds, (life + 1) * rounds):
                    kafka.write(f"{name}-in", [str(number)])
                    until(lambda number=number: kafka.count(f"{name}-out") > number, "the record is copied")  # type: ignore[misc]
                    time.sleep(1)
                running.signal(signal.SIGTERM)
                assert running.wait() == 0, running.reported()
                return running.errors

        for life in range(lives):
            output = live(life)
            # One that was held up for a fifth of a second is too late; who renews too late is so each time.
            if "no connection" not in output:
                break
        assert copied(kafka, name) == [str(number).encode() for number in range((life + 1) * rounds)]
    assert "authenticated again" in output, output
    assert "no connection" not in output, output


def test_the_replica_of_the_same_rack_is_read(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    for topic in ("in", "out"):
        secured.create_topic(f"{name}-{topic}")
    secured.wait_until_in_sync(f"{name}-in")
    leader = secured.leader(f"{name}-in")
    nearby = next(node for node in secured.nodes if node != leader)
    kafka = KafkaTopics(secured.bootstrap())
    given = [str(number) for number in range(100)]
    with copying({**secured.client("SASL_SSL_SCRAM"), "client.rack": f"rack-{nearby}"}, name, tmp_path) as running:
        running.until(lambda: "RUNNING" in running.lines, "it runs")
        kafka.write(f"{name}-in", given)
        until(lambda: kafka.count(f"{name}-out") == len(given), "all is copied")
        running.signal(signal.SIGTERM)
        assert running.wait() == 0, running.reported()
        output = running.errors
    assert copied(kafka, name) == [value.encode() for value in given]
    assert f"read from the replica on broker {nearby}" in output, output


def test_a_worker_answers_through_sasl(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    for topic in ("in", "asked", "answered", "out"):
        secured.create_topic(f"{name}-{topic}")
    asked, answered = f"{name}-asked", f"{name}-answered"
    builder = sf.StreamsBuilder()
    builder.stream(f"{name}-in", key=str, value=str).offload(
        asked, answered, joiner=lambda _, answer: answer, response_value=str, name="upper"
    ).to(f"{name}-out", key=str, value=str)
    client = secured.client("SASL_SSL_SCRAM")
    given = [f"value {number}" for number in range(200)]
    kafka = KafkaTopics(secured.bootstrap())
    worker = sf.Worker(str.upper, requests=asked, responses=answered, config=client, value=str, answer=str)
    with sf.StoatFlow(builder.build(), {"application.id": name, "state.dir": tmp_path, **client}), worker:
        kafka.write(f"{name}-in", given, key="k")
        until(lambda: kafka.count(f"{name}-out") == len(given), "all are answered", 60)
    assert copied(kafka, name) == [value.upper().encode() for value in given]


def pem(path: str) -> str:
    """The text of a file of certificates."""
    return Path(path).read_text()


WORKS: dict[str, tuple[str, Callable[[dict[str, str]], dict[str, object]]]] = {
    "TLS 1.2": ("SSL", lambda client: {**client, "ssl.enabled.protocols": "TLSv1.2"}),
    "another host name": ("SSL_OTHER_HOST", lambda client: {**client, "ssl.endpoint.identification.algorithm": "none"}),
    "any certificate": (
        "SSL_EXPIRED",
        lambda client: {
            **{key: value for key, value in client.items() if key != "ssl.ca.location"},
            "enable.ssl.certificate.verification": False,
        },
    ),
    "PEM texts": (
        "MTLS",
        lambda client: {
            **{key: value for key, value in client.items() if not key.endswith(".location")},
            "ssl.ca.pem": pem(client["ssl.ca.location"]),
            "ssl.certificate.pem": pem(client["ssl.certificate.location"]),
            "ssl.key.pem": pem(client["ssl.key.location"]),
        },
    ),
    "Java's names": (
        "SASL_SSL_SCRAM",
        lambda client: {
            "bootstrap.servers": client["bootstrap.servers"],
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": client["ssl.ca.location"],
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{client["sasl.username"]}" password="{client["sasl.password"]}";',
        },
    ),
    "compression with a level": (
        "SASL_SSL_PLAIN",
        lambda client: {**client, "compression.type": "zstd", "compression.zstd.level": 9},
    ),
}


def copies(secured: KafkaCluster, name: str, state: Path, client: Mapping[str, object]) -> None:
    """Records come through with these properties."""
    for topic in ("in", "out"):
        secured.create_topic(f"{name}-{topic}")
    kafka = KafkaTopics(secured.bootstrap())
    given = ["value " * 100 + str(number) for number in range(50)]
    kafka.write(f"{name}-in", given)
    builder = sf.StreamsBuilder()
    builder.stream(f"{name}-in").to(f"{name}-out")
    consume(sf.StoatFlow(builder.build(), {"application.id": name, "state.dir": state, **client}))
    assert copied(kafka, name) == [value.encode() for value in given]


@pytest.mark.parametrize("what", WORKS)
def test_settings_of_the_page_work(secured: KafkaCluster, name: str, tmp_path: Path, what: str) -> None:
    listener, changed = WORKS[what]
    copies(secured, name, tmp_path, changed(secured.client(listener)))


def test_a_password_comes_from_a_file(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    client = secured.client("SASL_SSL_SCRAM")
    password = tmp_path / "password"
    password.write_text(client["sasl.password"] + "\n")
    copies(secured, name, tmp_path / "state", {**client, "sasl.password": f"file:{password}"})


class Encrypted:
    """TLS in front of a server on loopback, with the certificate of the brokers."""

    def __init__(self, port: int, keystore: Path) -> None:
        """Listens; forwards once it is entered."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(keystore)
        self._socket = context.wrap_socket(socket.create_server(("127.0.0.1", 0)), server_side=True)
        self.port: int = self._socket.getsockname()[1]
        self._behind = port
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Encrypted:
        """Start."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        self._socket.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                with client, socket.create_connection(("127.0.0.1", self._behind), 10) as behind:
                    threading.Thread(target=_forward, args=(client, behind), daemon=True).start()
                    _forward(behind, client)


def _forward(source: socket.socket, sink: socket.socket) -> None:
    """Pass everything on until one of them closes."""
    with contextlib.suppress(OSError):
        while part := source.recv(65536):
            sink.sendall(part)


def test_tokens_are_fetched_over_https_and_cached(secured: KafkaCluster, name: str, tmp_path: Path) -> None:
    client = secured.client("SASL_SSL_OAUTHBEARER")
    endpoint = urllib.parse.urlsplit(client["sasl.oauthbearer.token.endpoint.url"])
    assert endpoint.port is not None
    served = len(secured.tokens.served)
    with Encrypted(endpoint.port, secured.certificates.server) as encrypted:
        url = f"https://127.0.0.1:{encrypted.port}{endpoint.path}"
        changed = {"sasl.oauthbearer.token.endpoint.url": url, "https.ca.location": client["ssl.ca.location"]}
        copies(secured, name, tmp_path, {**client, **changed})
    assert len(secured.tokens.served) == served + 1, "one token for all connections"
