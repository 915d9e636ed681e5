"""Metrics of the native client on a real Kafka broker, which goes away and comes back."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import pytest
from broker.kafka_broker import KafkaBroker
from counting import until
from topics import KafkaTopics

import stoatflow as sf

SAMPLE = re.compile(r"^(?:stoatflow_client_|kafka_)(\w+)\{(.*)\} (\S+)$", re.MULTILINE)


class Counts:
    """One scrape."""

    def __init__(self, app: sf.StoatFlow, names: str = "stoatflow") -> None:
        url = f"{str(app.admin_url).rstrip('/')}/metrics?names={names}"
        with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310  # loopback
            text = answer.read().decode()
        self.samples = [
            (name, dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value))
            for name, labels, value in SAMPLE.findall(text)
        ]

    def sum(self, name: str, **labels: str) -> float:
        found = [value for of, has, value in self.samples if of == name and labels.items() <= has.items()]
        return sum(found)


def topology(name: str) -> sf.Topology:
    builder = sf.StreamsBuilder()
    counts = builder.stream(f"{name}-in", key=str, value=str).group_by_key().count(store="counts")
    counts.to_stream().to(f"{name}-out", key=str, value=int)
    return builder.build()


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_clients_are_counted_and_an_outage_shows(tmp_path: Path, name: str, guarantee: str) -> None:
    with KafkaBroker() as broker:
        kafka = KafkaTopics(broker.bootstrap)
        for topic in ("in", "out"):
            kafka.create(f"{name}-{topic}")
        kafka.write(f"{name}-in", ["x" * 1_000] * 100, key="k")
        config = {
            "application.id": name,
            "bootstrap.servers": broker.bootstrap,
            "state.dir": str(tmp_path),
            "processing.guarantee": guarantee,
        }
        with sf.StoatFlow(topology(name), config) as app:
            until(lambda: app.metrics()["records_committed"] == 100, "all of it is committed")
            counts = Counts(app)
            apis = ["Fetch", "Produce", "Metadata", "ListOffsets", "TxnOffsetCommit"]
            # Outside of transactions, offsets alone are committed in one.
            for api in [*apis, "EndTxn"]:
                sent, answered = (
                    counts.sum("requests_total", api=api),
                    counts.sum("request_duration_seconds_count", api=api),
                )
                # At most one request to a broker is in flight, on each connection.
                assert sent - 3 <= answered <= sent, api
                assert answered > 0, api
                assert 0 < counts.sum("request_duration_seconds_sum", api=api) < 60 * answered, api
                assert counts.sum("request_duration_seconds_bucket", api=api, le="+Inf") == answered, api
            assert counts.sum("received_bytes_total", client="consumer", api="Fetch") > 100_000
            assert 300 < counts.sum("sent_bytes_total", client="producer", api="Produce") < 100_000
            assert counts.sum("requests_total", client="consumer", api="Produce") == 0
            assert counts.sum("requests_unanswered_total") == 0
            assert counts.sum("throttle_seconds_total") == 0
            for client in ("consumer", "producer", "admin"):
                opened = counts.sum("connections_opened_total", client=client)
                assert opened == counts.sum("requests_total", client=client, api="ApiVersions"), client
                closed = counts.sum("connections_closed_total", client=client)
                assert counts.sum("connections", client=client) == opened - closed > 0, client
            assert counts.sum("connections_failed_total") == counts.sum("reconnects_total") == 0
            theirs = Counts(app, "kafka-streams")
            for client, kind in [("consumer", "consumer_metrics"), ("producer", "producer_metrics")]:
                theirs_sent = theirs.sum(f"{client}_{kind}_request_total")
                assert theirs_sent >= counts.sum("requests_total", client=client) > 0, client
            assert theirs.sum("consumer_consumer_fetch_manager_metrics_fetch_latency_avg") > 0

            broker.stop()
            until(lambda: Counts(app).sum("connections_failed_total") > 0, "the outage is counted")
            broker.start()
            kafka.write(f"{name}-in", ["y"] * 10, key="k")
            until(lambda: len(kafka.read(f"{name}-out")) > 0 and app.lag() == 0, "it goes on")
            until(lambda: app.metrics()["records_committed"] >= 110, "all of it is committed")
            after = Counts(app)
            assert after.sum("reconnects_total") > 0
            assert after.sum("connections_closed_total") > 0
            assert after.sum("requests_unanswered_total") > 0


def test_librdkafka_does_not_count(kafka: KafkaTopics, tmp_path: Path, name: str) -> None:
    for topic in ("in", "out"):
        kafka.create(f"{name}-{topic}")
    kafka.write(f"{name}-in", ["x"], key="k")
    config = {
        "application.id": name,
        "bootstrap.servers": kafka.address,
        "state.dir": str(tmp_path),
        "kafka.client": "librdkafka",
    }
    with sf.StoatFlow(topology(name), config) as app:
        until(lambda: app.metrics()["records_committed"] == 1, "it is committed")
        assert Counts(app).samples == []
        theirs = {of for of, _has, _value in Counts(app, "kafka-streams").samples}
        assert "consumer_consumer_fetch_manager_metrics_records_consumed_total" in theirs
        assert not any("request" in of or "connection" in of for of in theirs)
