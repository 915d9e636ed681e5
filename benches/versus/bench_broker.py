"""The broker that all engines are measured on: as Kafka's own scripts start it.

Takes: settings of the benchmark's own. Gives: a broker with the JVM options of `kafka-server-start.sh` and
`kafka-run-class.sh`, and with Kafka's numbers of threads. Never: what only tests need, which run several at a time and
beside other work.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.kafka_broker import KafkaBroker

# KAFKA_HEAP_OPTS and KAFKA_JVM_PERFORMANCE_OPTS, as the scripts of Kafka 4.1 set them.
JVM = (
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip
# Kafka's own defaults.
THREADS = {"num.network.threads": "3", "num.io.threads": "8", "background.threads": "10"}


def bench_broker(settings: Mapping[str, str] | None = None) -> KafkaBroker:
    """Not started yet."""
    return KafkaBroker(settings={**THREADS, **(settings or {})}, java_options=JVM)
