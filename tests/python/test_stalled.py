"""A function that doesn't come back is seen, with its record."""

from __future__ import annotations

import json
import signal
import urllib.request
from pathlib import Path
from typing import Any

from hanging import BOUND_S, Hanging

SLEEPS = """
def deeply(value):
    print("hangs", flush=True)
    time.sleep(60)
    return value
def fn(value):
    return deeply(value)
"""


def test_the_admin_port_shows_the_function_and_its_record(tmp_path: Path) -> None:
    run = """
app.start()
time.sleep(1)
print(app.admin_url, flush=True)
time.sleep(60)
"""
    with Hanging(tmp_path, SLEEPS, run=run, settings={"admin.listen": "127.0.0.1:0"}) as child:
        where = child.line().removeprefix("http://")
        with urllib.request.urlopen(f"http://{where}debug/threads", timeout=10) as answer:
            body = json.load(answer)
    calls: list[dict[str, Any]] = [lane["call"] for lane in body["lanes"] if lane["call"]]
    (call,) = calls
    assert call.pop("for_ms") >= 900
    assert call == {"function": "<string>:9 fn", "node": "hangs", "topic": "in", "partition": 0, "offset": 0}
    assert body["intake"]["call"] is None


AGGREGATES = """
def hang(key, value, so_far):
    if value == "second":
        print("hangs", flush=True)
        time.sleep(60)
    return so_far
def fn(value):
    return value
"""


def test_an_aggregator_has_its_record_too(tmp_path: Path) -> None:
    run = """
builder = sf.StreamsBuilder()
grouped = builder.stream("in", key=str, value=str).group_by_key()
grouped.aggregate(lambda: "", hang, store=sf.Materialized("sums", key=str, value=str), name="sums")
app = sf.StoatFlow(builder.build(), config, broker=broker, shutdown_timeout_ms="500")
broker.produce_many("in", [(None, b"a", b"second", 1)])
app.run()
"""
    with Hanging(tmp_path, AGGREGATES, run=run) as child:
        child.signal(signal.SIGTERM)
        assert child.ends(1 + BOUND_S) == 3, child.errors
        assert "hang, node sums, topic in, partition 0, offset 1," in child.errors
