"""Timers in the wheel: a real SIGKILL while they fire, and each of them is in the result once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import stoatflow
from stoatflow import EmbeddedBroker

RECORDS = 60
DELAY = 40
APP = """
import sys
import stoatflow as sf
from pathlib import Path

class Remind(sf.ContextualProcessor):
    def init(self, context):
        super().init(context)
        self.alarms = context.state_store("alarms")

    def process(self, record):
        self.alarms.register(record.timestamp + DELAY)

    def on_timer(self, timer):
        self.context.forward(sf.Record(timer.key, str(timer.at), timer.at))

folder = Path(sys.argv[1])
builder = sf.StreamsBuilder()
builder.add_state_store(sf.Stores.timers("alarms", key=str))
builder.stream("in", key=str, value=str).process(Remind, stores=["alarms"]).to("out", key=str, value=str)
config = {"application.id": "app", "state.dir": str(folder / "state"), "lanes.count": int(sys.argv[2])}
with sf.EmbeddedBroker(folder / "broker") as broker, sf.StoatFlow(builder.build(), config, broker=broker) as app:
    while not (str(app.state) == "RUNNING" and app.lag() == 0):
        if app.wait(timeout=0.02):
            raise SystemExit(1)
"""
PLACES = [
    "lane.barrier",
    "lane.seal",
    "commit.before-changelog",
    "commit.before-commit",
    "commit.before-apply",
    "commit.during-apply",
    "commit.after-apply",
]


def run(folder: Path, lanes: int, failpoints: str = "") -> subprocess.CompletedProcess[str]:
    """One life of the application, until nothing is left or it is killed."""
    environ = os.environ | {
        "STOATFLOW_FAILPOINTS": failpoints,
        "STOATFLOW_IN_FLIGHT_MAX_BYTES": "64KiB",
        "STOATFLOW_COMMIT_MIN_INTERVAL_MS": "1",
        "PYTHONPATH": os.pathsep.join([str(Path(stoatflow.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-c", APP.replace("DELAY", str(DELAY)), str(folder), str(lanes)]
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)


def write(folder: Path, first: int, last: int) -> None:
    with EmbeddedBroker(folder / "broker") as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic, 1)
        broker.produce_many("in", ((0, f"k{n % 13}".encode(), b"", n) for n in range(first, last)))


@pytest.mark.parametrize("place", PLACES)
def test_a_kill_there_loses_and_doubles_no_timer(tmp_path: Path, place: str) -> None:
    write(tmp_path, 0, RECORDS)
    assert run(tmp_path, 1).returncode == 0
    write(tmp_path, RECORDS, 2 * RECORDS)
    fault = "kill:150" if place == "commit.during-apply" else "kill"
    killed = run(tmp_path, 3, f"{place}={fault}")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    # A last record, for whose time all of the others are due.
    write(tmp_path, 3 * RECORDS, 3 * RECORDS + 1)
    done = run(tmp_path, 2)
    assert done.returncode == 0, done.stderr
    with EmbeddedBroker(tmp_path / "broker") as broker:
        fired = [((row.key or b"").decode(), row.timestamp) for row in broker.read("out")]
    assert sorted(fired, key=lambda each: each[1]) == [(f"k{n % 13}", n + DELAY) for n in range(2 * RECORDS)]
    for key in {key for key, _ in fired}:
        times = [at for k, at in fired if k == key]
        assert times == sorted(times), key
