"""A running application restarts by itself after the broker was unreachable: in the same process, exactly once."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import stoatflow
from stoatflow import EmbeddedBroker

LINES = 60
PLACES = [
    "epoch.send",
    "lane.barrier",
    "lane.seal",
    "commit.before-changelog",
    "commit.before-flush",
    "commit.before-offsets",
    "commit.before-commit",
    "commit.before-apply",
    "commit.after-apply",
]
APPLICATION = """
import json, sys, time, urllib.request
import stoatflow as sf

builder = sf.StreamsBuilder()
words = builder.stream("lines", key=bytes, value=str).flat_map_values(lambda line: line.split())
words.group_by(lambda _key, word: word, key=str, value=str).count(store="words").to_stream().to(
    "counts", key=str, value=int
)
app = sf.StoatFlow(builder.build(), {
    "application.id": "counting", "bootstrap.servers": sys.argv[1], "state.dir": sys.argv[2], "lanes.count": 2,
    "statestore.cache.max.bytes": 0, "commit.min.interval.ms": 1, "batch.max.records": 1,
    "in.flight.max.bytes": "64KiB",
})
states = []
app.add_state_listener(lambda new, old: states.append(str(new)))
with app:
    # What fails behind the commit leaves no lag.
    while app.metrics()["restarts"] == 0 or str(app.state) != "RUNNING" or app.lag():
        if app.wait(0.02):
            break
    metrics = app.metrics()
    with urllib.request.urlopen(app.admin_url + "debug/barriers") as answer:
        failed = json.load(answer)["failed"]
print(json.dumps({"restarts": metrics["restarts"], "states": states, "failed": failed}))
"""


def run(folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """One life, until nothing is left or it fails."""
    path = os.pathsep.join([str(Path(stoatflow.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", APPLICATION, f"embedded:{folder / 'broker'}", str(folder / "state")]
    return subprocess.run(
        command,
        env=os.environ | environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with EmbeddedBroker(tmp_path / "broker") as broker:
        for topic in ("lines", "counts"):
            broker.create_topic(topic, 2)
        broker.produce_many("lines", ((n % 2, None, f"w{n % 7} all".encode(), n + 1) for n in range(LINES)))
    return tmp_path


@pytest.mark.parametrize("place", PLACES)
def test_a_failure_at_a_failpoint_loses_and_duplicates_nothing(folder: Path, place: str) -> None:
    done = run(folder, STOATFLOW_FAILPOINTS=f"{place}=error")
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    assert reported["restarts"] == 1
    again = ["STARTING", "RESTORING", "RUNNING"]
    assert reported["states"] == [*again, *again, "STOPPING", "STOPPED"]
    assert "restarting from the last commit" in done.stderr
    found: dict[str, list[int]] = defaultdict(list)
    with EmbeddedBroker(folder / "broker") as broker:
        for row in broker.read("counts"):
            found[(row.key or b"").decode()].append(int.from_bytes(row.value or b"", "big"))
    assert found.pop("all") == list(range(1, LINES + 1))
    assert sum(len(counts) for counts in found.values()) == LINES
    for word, counts in found.items():
        assert counts == list(range(1, len(counts) + 1)), word


def test_the_number_of_restarts_is_limited(folder: Path) -> None:
    four_times = ",".join(["commit.before-flush=error"] * 4)
    done = run(folder, STOATFLOW_FAILPOINTS=four_times, STOATFLOW_RESTART_MAX_ATTEMPTS="3")
    assert done.returncode != 0
    assert len(re.findall("restarting from the last commit", done.stderr)) == 3
    assert "BrokerUnavailableError" in done.stderr


def test_restarts_can_be_disabled(folder: Path) -> None:
    done = run(folder, STOATFLOW_FAILPOINTS="commit.before-flush=error", STOATFLOW_RESTART_MAX_ATTEMPTS="0")
    assert done.returncode != 0
    assert "restarting from the last commit" not in done.stderr
    assert "the failpoint commit.before-flush says that the broker is away" in done.stderr


def test_the_outcome_of_a_failed_commit_survives_a_restart(folder: Path) -> None:
    """On the admin port, even after the restart, and in the log."""
    ended = run(folder, STOATFLOW_FAILPOINTS="commit.before-commit=error@1")
    assert ended.returncode == 0, ended.stderr
    failed = json.loads(ended.stdout.splitlines()[-1])["failed"]
    assert (failed["step"], failed["epoch"], failed["unknown"]) == ("commit", 1, False)
    assert "commit.before-commit" in failed["error"]
    assert [(row["topic"], row["partition"]) for row in failed["cut"]] == [("lines", 0), ("lines", 1)]
    assert all(0 <= row["committed"] <= row["offset"] <= LINES // 2 for row in failed["cut"])
    assert sum(row["offset"] - row["committed"] for row in failed["cut"]) == failed["records"]
    assert [lane["lane"] for lane in failed["lanes"]] == [0, 1]
    (line,) = [line for line in ended.stderr.splitlines() if "commit failed" in line]
    assert json.loads(json.loads(line)["evidence"]) == failed
