"""The admin port while Python is busy, while state is restored, and while the broker is down."""

from __future__ import annotations

import json
import shutil
import statistics
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from broker.kafka_broker import KafkaBroker
from counting import check_every_update, consume, lines, make, until
from processes import Process
from topics import KafkaTopics

from stoatflow import StoatFlow

ENDPOINTS = (
    "/health/live", "/health/ready", "/metrics", "/metrics?names=kafka-streams", "/topology", "/state", "/watermarks",
    "/debug/threads", "/debug/barriers", "/config", "/info", "/dead-letters", "/doctor", "/",
)  # fmt: skip

BUSY = """
import mmap, sys, time
import stoatflow as sf
address, name, state, gate = sys.argv[1:]
with open(gate, "rb") as file:
    gate = mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_READ)
def hold(line):
    until = time.monotonic() + 120.0
    # Until the gate is open: no call that would let go of the interpreter's lock.
    while gate[0] == 0 and time.monotonic() < until:
        pass
    return line.upper()
sys.setswitchinterval(3600)  # and no turn for other threads either
builder = sf.StreamsBuilder()
builder.stream(name + "-in", key=bytes, value=str).map_values(hold).to(name + "-out", key=bytes, value=str)
app = sf.StoatFlow(
    builder.build(), {"application.id": name, "bootstrap.servers": address, "state.dir": state, "lanes.count": 2}
)
app.start()
print(app.admin_url, flush=True)
app.wait()
"""


def get(url: str, patience: float = 30.0) -> tuple[int, str, float]:
    """Status, body and seconds."""
    began = time.monotonic()
    try:
        with urllib.request.urlopen(url, timeout=patience) as answer:  # noqa: S310 # the engine's own port
            status, body = answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            status, body = refused.code, refused.read().decode()
    return status, body, time.monotonic() - began


def closed_gate(folder: Path) -> Path:
    """The file whose first byte a function of `BUSY` waits for."""
    gate = folder / "gate"
    gate.write_bytes(b"\0")
    return gate


def open_gate(gate: Path) -> None:
    """Written in place, so that the mapped file stays the same."""
    with gate.open("r+b") as file:
        file.write(b"\1")


def get_json(url: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(get(url)[1])
    return body


def test_everything_answers_while_a_function_holds_the_interpreter(
    kafka: KafkaTopics, name: str, tmp_path: Path
) -> None:
    kafka.create(f"{name}-in")
    kafka.create(f"{name}-out")
    kafka.write(f"{name}-in", ["a", "b"])
    gate = closed_gate(tmp_path)
    with Process(["-c", BUSY, kafka.address, name, tmp_path / "state", gate]) as child:
        child.until(lambda: bool(child.lines), "it prints its address")
        base = child.lines[0].rstrip("/")

        def is_working() -> bool:
            return any(lane["state"] == "working" for lane in get_json(f"{base}/debug/threads")["lanes"])

        child.until(is_working, "a lane is in the function")
        slow = {}
        for path in ENDPOINTS:
            status, body, took = get(base + path)
            assert status == 200, f"{path}: {status} {body[:300]}"
            assert body
            if took > 0.2:
                slow[path] = took
        # A single slow answer may be the machine's fault, since other tests share it; one that needs the
        # interpreter is slow every time.
        slow = {path: took for path in slow if (took := min(get(base + path)[2] for _ in range(10))) > 0.2}
        live = min(get(f"{base}/health/live")[2] for _ in range(10))
        assert live < 0.05, f"/health/live takes {live * 1000:.0f} ms while the interpreter is held"
        assert is_working(), "the function ended before everything was asked"
        assert not slow, f"slower than 200 ms while the interpreter is held: {slow}"
        open_gate(gate)
        child.until(lambda: len(kafka.read(f"{name}-out")) == 2, "both records come out in the end")
        assert get_json(f"{base}/watermarks")["partitions"][0]["topic"] == f"{name}-in"


def test_endpoints_of_a_running_application(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    kafka.create(f"{name}-in", 2)
    kafka.create(f"{name}-out", 2)
    kafka.write(f"{name}-in", lines(1, 100))
    with make(kafka.address, name, tmp_path) as app:
        until(lambda: app.metrics()["records_committed"] == 100, "all of it is committed")
        base = str(app.admin_url).rstrip("/")
        until(lambda: get_json(f"{base}/watermarks")["lag"] == 0, "the lag is told")
        state = get_json(f"{base}/state")
        assert state["application_id"] == name
        assert [entry["state"] for entry in state["history"]] == ["STARTING", "RESTORING", "RUNNING"]
        assert [entry["store"] for entry in state["restore"]] == ["counts"]
        partitions = get_json(f"{base}/watermarks")["partitions"]
        assert {(p["topic"], p["partition"]): p["committed"] for p in partitions} == {
            (f"{name}-in", 0): 50,
            (f"{name}-in", 1): 50,
        }
        assert get_json(f"{base}/config")["settings"]["application.id"] == {"value": name, "source": "code"}
        info = get_json(f"{base}/info")
        assert info["client"] == {"name": "native", "why": "it knows all properties that are set"}
        assert info["broker"] == kafka.address
        assert info["uptime_ms"] > 0
        metrics = get(f"{base}/metrics")[1]
        assert metrics.rstrip().endswith("# EOF")
        assert any(line.startswith("stoatflow_") and line.endswith(" 100") for line in metrics.splitlines())
        assert get(f"{base}/nothing")[0] == 404
    with pytest.raises(urllib.error.URLError):
        get(f"{base}/health/live")


def test_not_ready_while_it_restores(
    kafka: KafkaTopics, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restore is over in a moment, so it is paused for a while and can be observed on any machine."""
    kafka.create(f"{name}-in", 4)
    kafka.create(f"{name}-out", 4)
    # Many different words, so that the changelog is as long as the input.
    kafka.write(f"{name}-in", (f"k{n} k{n + 1} k{n + 2} k{n + 3}" for n in range(0, 240_000, 4)))
    consume(make(kafka.address, name, tmp_path))
    shutil.rmtree(tmp_path)
    monkeypatch.setenv("STOATFLOW_FAILPOINTS", "restore.batch=sleep:3000")
    app = make(kafka.address, name, tmp_path)
    seen, times = [], []
    with app:
        base = str(app.admin_url).rstrip("/")
        status, body, _ = get(f"{base}/health/ready")
        assert status == 503
        while status == 503:
            seen.append(json.loads(body))
            time.sleep(0.01)
            status, body, took = get(f"{base}/health/ready")
            times.append(took)
        assert statistics.median(times) < 0.2
        assert json.loads(body)["ready"] is True
        assert get(f"{base}/health/live")[0] == 200
        restored = get_json(f"{base}/state")["restore"]
    restoring = [answer for answer in seen if answer["reason"] == "restoring"]
    assert restoring, f"never seen: {[answer['reason'] for answer in seen]}"
    assert all(answer["restore"][0]["store"] == "counts" for answer in restoring if answer["restore"])
    assert {answer["reason"] for answer in seen} <= {"restoring", "not_running"}
    assert all(answer["next_step"] for answer in seen)
    assert restored[0]["complete"]
    # These are offsets, which include transaction markers.
    assert restored[0]["done"] == restored[0]["total"] >= 240_000


STUCK = BUSY.replace("sys.setswitchinterval", "hold = lambda line: time.sleep(600)\n#")


@pytest.fixture(scope="module", autouse=True)
def stuck(kafka: KafkaTopics, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An engine whose function never returns: its address. It starts with this file, to be stalled at the end."""
    name = "stuck-for-good"
    kafka.create(f"{name}-in")
    kafka.create(f"{name}-out")
    kafka.write(f"{name}-in", ["a"])
    folder = tmp_path_factory.mktemp("stuck")
    with Process(["-c", STUCK, kafka.address, name, folder / "state", closed_gate(folder)]) as child:
        child.until(lambda: bool(child.lines), "it prints its address")
        yield child.lines[0].rstrip("/")


@pytest.fixture
def own(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker that this test may stop."""
    with KafkaBroker(tmp_path / "kafka") as broker:
        yield broker


@pytest.mark.long
def test_a_broker_that_is_restarted(own: KafkaBroker, name: str, tmp_path: Path) -> None:
    """The engine waits and continues, exactly, with both guarantees (without a crash at-least-once is exact too)."""
    topics = KafkaTopics(own.bootstrap)
    given = lines(1, 500)
    apps: dict[str, StoatFlow] = {}
    for guarantee in ("exactly_once_v2", "at_least_once"):
        one = f"{name}-{guarantee[0]}"
        for topic in (f"{one}-in", f"{one}-out"):
            topics.create(topic, 2)
        topics.write(f"{one}-in", given)
        apps[one] = make(own.bootstrap, one, tmp_path / "state", processing_guarantee=guarantee)
    more = lines(2, 500)
    with ExitStack() as running:
        for app in apps.values():
            running.enter_context(app)
        for app in apps.values():
            until(lambda: committed(app, 500), "the first part is committed")  # noqa: B023 # waits within the round
        own.stop()
        time.sleep(3.0)
        spent = time.process_time()
        began = time.monotonic()
        for app in apps.values():
            assert not app.wait(0)
            assert get(f"{app.admin_url}health/live")[0] == 200
            assert get(f"{app.admin_url}debug/barriers")[0] == 200
            # Nothing waits to be committed, but it is not ready all the same.
            status, body, _ = get(f"{app.admin_url}health/ready")
            assert (status, json.loads(body)["reason"]) == (503, "broker_away")
        time.sleep(3.0)
        share = (time.process_time() - spent) / (time.monotonic() - began)
        assert share < 0.1, f"two idle engines without a broker use {share:.2f} cores"
        own.restart()
        for one in apps:
            own.wait_for_leaders(f"{one}-in", 2)
            topics.write(f"{one}-in", more)
        for app in apps.values():
            until(lambda: committed(app, 1000) or app.wait(0), "the rest is committed")  # noqa: B023
            assert get(f"{app.admin_url}health/ready")[0] == 200
    for one, app in apps.items():
        assert str(app.state) == "STOPPED"
        check_every_update(topics.read(f"{one}-out"), given + more)


def committed(app: StoatFlow, records: int) -> bool:
    return int(app.metrics()["records_committed"]) == records


@pytest.mark.slow
def test_not_ready_when_it_makes_no_progress(stuck: str) -> None:
    """45 seconds without a commit although records wait; `stuck` hangs since before the first test of this file."""
    began = time.monotonic()
    while (answer := get(f"{stuck}/health/ready"))[0] == 200:
        assert time.monotonic() - began < 150
        time.sleep(0.2)
    reported = json.loads(answer[1])
    assert answer[0] == 503
    assert reported["reason"] == "stalled"
    assert "/debug/threads" in reported["next_step"]
    assert get(f"{stuck}/health/live")[0] == 200
    busy = [lane for lane in get_json(f"{stuck}/debug/threads")["lanes"] if lane["state"] == "working"]
    assert len(busy) == 1
    assert busy[0]["for_ms"] > 40_000
