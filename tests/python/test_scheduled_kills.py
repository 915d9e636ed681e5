"""A process without input topics that is killed again and again: its ticks are neither lost nor duplicated."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import stoatflow
from stoatflow import EmbeddedBroker

EVERY = 10
# Each is reached in every epoch with ticks.
PLACES = [
    "lane.barrier",
    "lane.seal",
    "epoch.send",
    "commit.before-changelog",
    "commit.before-flush",
    "commit.before-offsets",
    "commit.before-commit",
    "commit.before-apply",
    "commit.after-apply",
]
APPLICATION = """
import sys
import stoatflow as sf

builder = sf.StreamsBuilder()
ticks = builder.scheduled("tick", every="10ms", catch_up="all", max_catch_up=1_000_000)
ticks.to("ticks", key=str, value=int)
ticks.group_by_key().count(store="ticks").to_stream().to("counts", key=str, value=int)
app = sf.StoatFlow(builder.build(), {
    "application.id": "ticking", "bootstrap.servers": sys.argv[1], "state.dir": sys.argv[2],
    "lanes.count": int(sys.argv[3]), "statestore.cache.max.bytes": 0,
})
with app:
    app.wait(float(sys.argv[4]))
"""


def run(folder: Path, lanes: int, seconds: float, failpoints: str = "") -> subprocess.CompletedProcess[str]:
    """One life: until it is killed, or for this long."""
    path = os.pathsep.join([str(Path(stoatflow.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    where = [f"embedded:{folder / 'broker'}", str(folder / "state"), str(lanes), str(seconds)]
    return subprocess.run(
        [sys.executable, "-c", APPLICATION, *where],
        env=os.environ | {"PYTHONPATH": path, "STOATFLOW_FAILPOINTS": failpoints},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("kills", [6, pytest.param(50, marks=pytest.mark.slow)])
def test_no_tick_is_lost_or_duplicated(tmp_path: Path, kills: int) -> None:
    chance = random.Random(kills)  # noqa: S311  # where it is killed
    with EmbeddedBroker(tmp_path / "broker") as broker:
        for topic in ("ticks", "counts"):
            broker.create_topic(topic, 1)
    killed = 0
    while killed < kills:
        place = PLACES[killed % len(PLACES)]
        life = run(tmp_path, chance.randrange(1, 4), 20, f"{place}=kill@{chance.randrange(1, 12)}")
        assert life.returncode == -signal.SIGKILL, f"{place}: {life.stderr}"
        killed += 1
    last = run(tmp_path, 2, 0.5)
    assert last.returncode == 0, last.stderr
    with EmbeddedBroker(tmp_path / "broker") as broker:
        numbers = {
            topic: [int.from_bytes(row.value or b"", "big") for row in broker.read(topic)]
            for topic in ("ticks", "counts")
        }
    ticks = numbers["ticks"]
    assert len(ticks) > 10 * kills
    assert ticks == list(range(ticks[0], ticks[-1] + 1, EVERY))
    assert numbers["counts"] == list(range(1, len(ticks) + 1))
