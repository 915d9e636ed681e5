"""`/metrics?names=kafka-streams`: metrics for a Kafka Streams dashboard, and their description in the docs."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import stoatflow as sf
from concurrency import until
from http_calls import ask

ROOT = Path(__file__).resolve().parents[2]
MEASURED = runpy.run_path(str(ROOT / "scripts" / "measured.py"))
RECORDED = (Path(__file__).parent / "kafka_streams_metrics.txt").read_text("utf-8")
"""The metrics of the real Kafka Streams."""


def topology() -> sf.Topology:
    builder = sf.StreamsBuilder()
    orders = builder.stream("orders", key=str, value=str, name="orders")
    counts = orders.group_by(lambda _key, value: value, key=str, name="by-value").count(store="counts")
    counts.to_stream().to("out", key=str, value=int)
    return builder.build()


def samples(text: str) -> dict[str, float]:
    """By name and labels."""
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {series: float(value) for series, value in lines}


def test_a_running_application_gives_all_of_the_table(tmp_path: Path) -> None:
    with sf.EmbeddedBroker() as broker:
        for topic in ("orders", "out"):
            broker.create_topic(topic, 1)
        broker.produce_many("orders", [(0, b"k", b"v%d" % (n % 3), n) for n in range(100)])
        broker.produce("orders", "k", None)
        given = {"application.id": "shop", "state.dir": str(tmp_path), "lanes.count": 2}
        with sf.StoatFlow(topology(), sf.Settings(given, environ={}), broker=broker) as app:
            app.wait_until(caught_up=True)
            until(lambda: app.lag() == 0)
            found = samples(ask(app.admin_url, "/metrics", names="kafka-streams").text)
            ours = samples(ask(app.admin_url, "/metrics").text)
            plain = ask(app.admin_url, "/metrics?names=kafka-streams", headers={"Accept": "text/plain"})
            assert samples(plain.text).keys() == found.keys()
            refused = ask(app.admin_url, "/metrics", names="java")
    table = {name: of for name, _kind, of, _meaning in MEASURED["kafka_streams"]()}
    # Topics in the process have no Kafka client.
    here = {name for name, of in table.items() if not of.startswith("stoatflow_client_")}
    assert {series.partition("{")[0] for series in found} == here
    assert len(here) < len(table)
    assert all(re.search(r'[{,]client_id="shop"', series) for series in found)
    assert (refused.status, refused.json()["type"]) == (400, "urn:stoatflow:bad_request")

    def theirs(name: str) -> float:
        return sum(value for series, value in found.items() if series.partition("{")[0] == f"kafka_{name}")

    def counted(name: str) -> float:
        return sum(value for series, value in ours.items() if series.partition("{")[0] == f"stoatflow_{name}")

    assert theirs("streams_stream_thread_metrics_process_total") == counted("lane_records_total")
    assert theirs("streams_stream_processor_node_metrics_process_total") == 101
    assert theirs("consumer_consumer_fetch_manager_metrics_records_consumed_total") == 101
    assert theirs("consumer_consumer_fetch_manager_metrics_records_lag") == 0
    assert theirs("streams_stream_task_metrics_dropped_records_total") == counted("dropped_records_total") == 1
    sent = counted("records_out_total") + counted("changelog_records_total")
    assert theirs("producer_producer_metrics_record_send_total") == sent > 3
    assert theirs("streams_stream_metrics_alive_stream_threads") == 2
    assert theirs("streams_stream_metrics_client_state") == 2
    assert 'kafka_streams_stream_metrics{client_id="shop",state="RUNNING"}' in found


def test_counterparts_are_existing_metrics() -> None:
    known = {name for name, *_ in MEASURED["metrics"]()}
    for name, _kind, ours, _meaning in MEASURED["kafka_streams"]():
        assert set(ours.split(", ")) <= known, name


def test_every_metric_of_kafka_streams_has_a_counterpart_or_a_reason() -> None:
    table = {name for name, *_ in MEASURED["kafka_streams"]()}
    without = [name for _reason, names in MEASURED["no_counterpart"]() for name in names]
    assert len(without) == len(set(without))
    assert table & set(without) == set()
    theirs = {line for line in RECORDED.splitlines() if not line.startswith("#")}
    assert len(theirs) > 150
    own = {name for name in table if name.startswith("kafka_streams_")}
    # The client's texts are labels of one metric of this name.
    assert own - theirs == {"kafka_streams_stream_metrics"}
    assert theirs == (own - {"kafka_streams_stream_metrics"}) | set(without)
