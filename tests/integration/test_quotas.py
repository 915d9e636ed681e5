"""Quotas of a cluster (KIP-219): a throttled application loses nothing, and waits as long as the broker says."""

from __future__ import annotations

import json
import re
import signal
import time
import urllib.request
from pathlib import Path

import pytest
from broker.broker_config import free_port_numbers
from broker.cluster import KafkaCluster
from processes import Process
from topics import KafkaTopics

HERE = Path(__file__).parent
pytestmark = pytest.mark.xdist_group("secured")

# A broker averages over the last ten seconds: 115 KB in one burst exceed 10 KB a second.
BYTES = {"producer_byte_rate": 10_000.0, "consumer_byte_rate": 12_000.0}
# Less than any request takes, on any machine.
REQUESTS = {"request_percentage": 0.05}
SIZE = 1000


def throttled_s(port: int) -> float:
    """The value of the metric, which is also the sum over the clients' APIs."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:  # loopback
        text = answer.read().decode()
    found = re.search(r"^stoatflow_broker_throttle_seconds_total\S* (\S+)$", text, re.MULTILINE)
    assert found is not None
    by_api = re.findall(r"^stoatflow_client_throttle_seconds_total\S* (\S+)$", text, re.MULTILINE)
    # The sum is looked up once a second, so it may be behind.
    assert sum(map(float, by_api)) >= float(found[1]) - 0.001
    return float(found[1])


@pytest.mark.parametrize(("quotas", "count"), [(BYTES, 115), (REQUESTS, 20)], ids=["bytes", "requests"])
def test_a_quota_is_kept_and_nothing_is_lost(
    secured: KafkaCluster, name: str, tmp_path: Path, quotas: dict[str, float], count: int
) -> None:
    for topic in ("in", "out"):
        secured.create_topic(f"{name}-{topic}")
    kafka = KafkaTopics(secured.bootstrap())
    (port,) = free_port_numbers(1)
    config = {
        "application.id": name,
        "state.dir": str(tmp_path),
        "client.id": name,
        "admin.listen": f"127.0.0.1:{port}",
        **secured.client("SASL_SSL_SCRAM"),
    }
    given = [f"{number:05}".ljust(SIZE, "x") for number in range(count)]
    try:
        with Process([HERE / "copying.py", json.dumps(config)], {"RUST_LOG": "warn,stoatflow::kafka=debug"}) as running:
            running.until(lambda: "RUNNING" in running.lines, "it runs")
            secured.limit(name, **quotas)
            time.sleep(2.0)  # until the brokers know, even on a busy machine
            began = time.monotonic()
            for start in range(0, count, 10):
                kafka.write(f"{name}-in", given[start : start + 10])
                time.sleep(0.05)
            if quotas is REQUESTS:
                # A broker then delays each request by up to a second: all of them would take minutes.
                running.until(lambda: throttled_s(port) > 0.5, "it is slowed down")
                secured.limit(name, **dict.fromkeys(quotas))
            running.until(lambda: kafka.count(f"{name}-out") >= count, "all is copied", 120)
            waited, took = throttled_s(port), time.monotonic() - began
            running.signal(signal.SIGTERM)
            assert running.wait() == 0, running.reported()
            output = running.errors
    finally:
        secured.limit(name, **dict.fromkeys(quotas))
    assert [row.value for row in kafka.read(f"{name}-out")] == [value.encode() for value in given]
    assert waited > 0.5, f"it was slowed down for {waited} s"
    if quotas is BYTES:
        assert took > 1.0, "it was not faster than the quota"
    assert "a quota of the cluster slows this application down" in output
    for trouble in ("no connection", "no answer", "stopped by an error"):
        assert trouble not in output, output
