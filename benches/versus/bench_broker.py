"""The broker for all engines, started as by Kafka's own scripts.

Takes settings of the benchmark. Returns a broker with the JVM options of `kafka-server-start.sh` and
`kafka-run-class.sh`, and with Kafka's default numbers of threads, without the settings of brokers for tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from broker.cluster import KafkaCluster
from broker.kafka_broker import KafkaBroker

# The version of the published figures, whichever one the tests run on.
KAFKA = "4.1.1"
# KAFKA_HEAP_OPTS and KAFKA_JVM_PERFORMANCE_OPTS, as the scripts of Kafka 4.1 set them.
JVM = (
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip
# Kafka's defaults.
THREADS = {"num.network.threads": "3", "num.io.threads": "8", "background.threads": "10"}


# The listener to which engines connect with `--security`.
LISTENERS = {"sasl_ssl": "SASL_SSL_SCRAM", "ssl": "SSL"}


class SecuredBroker:
    """The same broker with TLS, SASL and ACLs: engines use one listener, inputs are written through plaintext."""

    def __init__(self, security: str, settings: Mapping[str, str]) -> None:
        """Not started yet."""
        self._listener = LISTENERS[security]
        self._cluster = KafkaCluster(nodes=1, settings=settings, java_options=JVM, version=KAFKA)

    def __enter__(self) -> SecuredBroker:
        """Start it."""
        self._cluster.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it."""
        self._cluster.__exit__(kind, error, trace)

    @property
    def bootstrap(self) -> str:
        """The plaintext listener."""
        return self._cluster.bootstrap()

    @property
    def address(self) -> str:
        """The listener of the engines."""
        return self._cluster.bootstrap(self._listener)

    @property
    def client(self) -> dict[str, str]:
        """Client settings for that listener, by the names of Java's clients, which both sides read."""
        found = self._cluster.client(self._listener)
        client = {"security.protocol": found["security.protocol"], "ssl.truststore.type": "PEM"}
        client["ssl.truststore.location"] = found["ssl.ca.location"]
        if "sasl.username" in found:
            module = "org.apache.kafka.common.security.scram.ScramLoginModule"
            user, password = found["sasl.username"], found["sasl.password"]
            client["sasl.mechanism"] = found["sasl.mechanism"]
            client["sasl.jaas.config"] = f'{module} required username="{user}" password="{password}";'
        return client

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._cluster.pid(self._cluster.nodes[0])

    @property
    def folder(self) -> Path:
        """Its data folder."""
        return self._cluster.folder / f"node-{self._cluster.nodes[0]}"

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic."""
        self._cluster.create_topic(name, partitions)


AnyBroker = KafkaBroker | SecuredBroker


def bench_broker(settings: Mapping[str, str] | None = None, security: str = "plaintext") -> AnyBroker:
    """Return the broker, not started yet."""
    all_settings = {**THREADS, **(settings or {})}
    if security == "plaintext":
        return KafkaBroker(settings=all_settings, java_options=JVM, version=KAFKA)
    return SecuredBroker(security, all_settings)
