"""A function that hangs during normal operation: it is detected, reported, and ends the application."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from hanging import BOUND_S, TELLS_WHEN_IT_RUNS, Hanging

SLEEPS = """
def deeply(value):
    print("hangs", flush=True)
    time.sleep(60)
    return value
def fn(value):
    return deeply(value)
"""
KEEPS = SLEEPS.replace("time.sleep(60)", "sum(range(10**12))")
FIVE_SECONDS: dict[str, object] = {"stall.timeout.ms": "5s"}


@pytest.mark.parametrize("functions", [SLEEPS, KEEPS], ids=["sleeps", "keeps"])
def test_a_stall_ends_the_process_with_a_report(functions: str, tmp_path: Path) -> None:
    with Hanging(tmp_path, functions, settings=FIVE_SECONDS) as child:
        # A function that keeps the interpreter delays the stack traces, by two seconds each time.
        assert child.ends(6 + 2 * BOUND_S + 2) == 3, child.errors
        errors = child.errors
    (report,) = (tmp_path / "state" / "hanging").glob("stalled-*.txt")
    text = report.read_text()
    # It has hung for five seconds, or longer if the machine was slow to detect it.
    where = re.compile(r"stage 0, function <string>:9 fn, node hangs, topic in, partition 0, offset 0, for \d+\.")
    assert where.search(text), text
    assert where.search(errors), errors
    assert re.search(r"nothing was committed for \d+ s although records wait", errors), errors
    if functions == SLEEPS:
        assert "StalledError: nothing was committed" in errors
        assert "Python, stoatflow-lane-" in text
        assert "line 7, in deeply" in text
        assert "Python, MainThread:" in text
    else:
        assert "The interpreter's stacks are not available" in text


@pytest.mark.parametrize(("timeout", "pause"), [("0", "3"), ("30s", "0.6")])
def test_a_call_that_returns_in_time_is_no_stall(timeout: str, pause: str, tmp_path: Path) -> None:
    """Disabled, or longer than the function takes."""
    functions = SLEEPS.replace("60", pause)
    run = """
import threading
def close():
    while len(list(broker.read("out"))) < 3:
        time.sleep(0.01)
    app.close()
broker.produce_many("in", [(None, b"a", b"next", 1)] * 2)
threading.Thread(target=close).start()
app.run()
print("after", app.state, flush=True)
"""
    with Hanging(tmp_path, functions, run=run, settings={"stall.timeout.ms": timeout}) as child:
        assert child.ends(3 * float(pause) + BOUND_S + 2) == 0, child.errors
        assert child.output().endswith("after STOPPED\n")


def test_an_idle_application_is_not_stalled(tmp_path: Path) -> None:
    with Hanging(tmp_path, "", fn="sf.value", run=TELLS_WHEN_IT_RUNS, settings={"stall.timeout.ms": "6s"}) as child:
        child.signal(signal.SIGTERM, after=8)
        assert child.ends(BOUND_S) == 0, child.errors


def test_the_admin_port_shows_the_function_and_its_record(tmp_path: Path) -> None:
    functions = "import threading\nbegan = threading.Event()" + SLEEPS.replace("    time", "    began.set()\n    time")
    run = """
app.start()
began.wait()
time.sleep(1)
print(app.admin_url, flush=True)
time.sleep(60)
"""
    with Hanging(tmp_path, functions, run=run, settings={"admin.listen": "127.0.0.1:0"}) as child:
        where = child.line().removeprefix("http://")
        with urllib.request.urlopen(f"http://{where}debug/threads", timeout=60) as answer:
            body = json.load(answer)
    calls: list[dict[str, Any]] = [lane["call"] for lane in body["lanes"] if lane["call"]]
    (call,) = calls
    assert call.pop("for_ms") >= 900
    assert re.fullmatch(r"<string>:\d+ fn", call.pop("function"))
    assert call == {"node": "hangs", "topic": "in", "partition": 0, "offset": 0}
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


RETRIES = """
calls = 0
def fn(value):
    global calls
    calls += 1
    if calls == 1 and value == "first":
        print("hangs", flush=True)
        raise ValueError("not yet")
    return value
"""
RETRYING = """
builder = sf.StreamsBuilder()
stream = builder.stream("in", key=str, value=str)
stream = stream.map_values(fn, name="hangs", on_error=sf.Retry(3, backoff="1m", then=sf.log_and_fail()))
stream.to("out", key=str, value=str)
def run():
    app = sf.StoatFlow(builder.build(), config, broker=broker)
    app.run()
    print("after", app.state, app.error, len(list(broker.read("out"))), flush=True)
run()
"""
AGAIN = (
    RETRYING
    + """
import threading
app = sf.StoatFlow(builder.build(), config, broker=broker)
app.start()
while app.lag():
    time.sleep(0.01)
print(app.close(), [r.value for r in broker.read("out")], flush=True)
"""
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: signal.Signals(n).name)
def test_a_stop_interrupts_the_pause_of_a_retry(number: signal.Signals, tmp_path: Path) -> None:
    """Nothing of the epoch is committed, nothing has failed, and the next start reads the record again."""
    with Hanging(tmp_path, RETRIES, run=AGAIN) as child:
        child.signal(number, after=0.5)
        assert child.ends(BOUND_S + 2) == 0, child.errors
        assert child.output().splitlines() == ["after STOPPED None 0", "True [b'first']"]
