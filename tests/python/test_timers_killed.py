"""Timers in the wheel: a real SIGKILL while they fire, and each of them is in the result once."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
from pathlib import Path

import pytest

import lives
from stoatflow import EmbeddedBroker

RECORDS = 60
KILLS = int(os.environ.get("TIMER_KILLS", "8"))
DELAY = 40
APP = """
import sys, time
import stoatflow as sf
from pathlib import Path

class Remind(sf.ContextualProcessor):
    def init(self, context):
        super().init(context)
        self.alarms = context.state_store("alarms")

    def process(self, record):
        self.alarms.register(record.timestamp + DELAY)

    def on_timer(self, timer):
        time.sleep(SLEEP)
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


def start(folder: Path, lanes: int, failpoints: str = "", sleep: float = 0) -> subprocess.Popen[str]:
    """Start a life of the application."""
    code = APP.replace("DELAY", str(DELAY)).replace("SLEEP", str(sleep))
    return lives.start("-c", code, folder, str(lanes), failpoints=failpoints)


def run(folder: Path, lanes: int, failpoints: str = "") -> tuple[int, str]:
    """One life of the application, until nothing is left or it is killed."""
    return lives.ended(start(folder, lanes, failpoints))


def write(folder: Path, first: int, last: int) -> None:
    with EmbeddedBroker(folder / "broker") as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic, 1)
        broker.produce_many("in", ((0, f"k{n % 13}".encode(), b"", n) for n in range(first, last)))


def fired(folder: Path) -> list[tuple[str, int]]:
    """Key and time of the timers that fired, each key's in time order."""
    with EmbeddedBroker(folder / "broker") as broker:
        found = [((row.key or b"").decode(), row.timestamp) for row in broker.read("out")]
    for key in {key for key, _ in found}:
        times = [at for k, at in found if k == key]
        assert times == sorted(times), key
    return sorted(found, key=lambda each: each[1])


@pytest.mark.parametrize("place", PLACES)
def test_a_kill_at_a_failpoint_loses_and_duplicates_no_timer(tmp_path: Path, place: str) -> None:
    write(tmp_path, 0, RECORDS)
    code, errors = run(tmp_path, 1)
    assert code == 0, errors
    write(tmp_path, RECORDS, 2 * RECORDS)
    code, errors = run(tmp_path, 3, lives.kill_at(place))
    assert code == -signal.SIGKILL, errors
    # A last record, at whose time all others are due.
    write(tmp_path, 3 * RECORDS, 3 * RECORDS + 1)
    code, errors = run(tmp_path, 2)
    assert code == 0, errors
    assert fired(tmp_path) == [(f"k{n % 13}", n + DELAY) for n in range(2 * RECORDS)]


@pytest.mark.slow
def test_random_kills_lose_and_duplicate_no_timer(tmp_path: Path) -> None:
    chance = random.Random(11)  # noqa: S311  # the same lives each time
    count, kills = 750 * KILLS, 0
    write(tmp_path, 0, count)
    write(tmp_path, 2 * count, 2 * count + 1)
    for _ in range(KILLS):
        # Timers that take a while: most of a life is spent in them.
        life = start(tmp_path, chance.choice([1, 3, 5]), sleep=0.001)
        with contextlib.suppress(subprocess.TimeoutExpired):
            life.wait(timeout=chance.uniform(0.5, 1.2))
        life.kill()
        kills += lives.ended(life)[0] == -signal.SIGKILL
    assert kills > KILLS // 4, "it was done too soon: give it more to do"
    code, errors = run(tmp_path, 2)
    assert code == 0, errors
    assert fired(tmp_path) == [(f"k{n % 13}", n + DELAY) for n in range(count)]
