"""Stores that a new topology no longer has are named at the start, and are left unchanged."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import stoatflow
from stoatflow import EmbeddedBroker

APP = """
import sys
import stoatflow as sf

folder, kind, *names = sys.argv[1:]
builder = sf.StreamsBuilder()
for name in names:
    kept = getattr(sf.Stores, kind)(name, key=str, value=int)
    builder.add_state_store(kept)

class Counts(sf.ContextualProcessor):
    def process(self, record):
        for name in names:
            self.context.state_store(name).merge(record.key, 1, lambda had, more: had + more)

builder.stream("in", key=str, value=int).process(Counts, stores=names)
config = {"application.id": "shop", "state.dir": folder + "/state", "lanes.count": 1}
with sf.EmbeddedBroker(folder + "/broker") as broker, sf.StoatFlow(builder.build(), config, broker=broker) as app:
    while not (str(app.state) == "RUNNING" and app.lag() == 0):
        assert not app.wait(timeout=0.02)
"""
TOLD = "that the topology doesn't have"


def run(folder: Path, *names: str, kind: str = "persistent_key_value", level: str = "warn") -> str:
    """One life with these stores; returns its output."""
    path = os.pathsep.join([str(Path(stoatflow.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", APP, str(folder), kind, *names]
    environ = os.environ | {"PYTHONPATH": path, "RUST_LOG": level}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr + done.stdout


def test_orphaned_stores_are_named(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "broker") as broker:
        broker.create_topic("in", 1)
        broker.create_topic("shopping-old-changelog", 1)
        broker.produce("in", b"k", (1).to_bytes(8, "big"), 1)
    assert TOLD not in run(tmp_path, "counts", "old", "older")
    (reported,) = [line for line in run(tmp_path, "counts").splitlines() if TOLD in line]
    assert "old, older" in reported
    assert "shop-old-changelog, shop-older-changelog" in reported
    assert "shopping" not in reported
    assert "Next: when no release needs them, remove them: stoatflow reset --orphans" in reported
    # A store that moved to memory is not gone. On a fresh disk only the topics are left, which is no reason
    # to warn.
    assert 'stores":"old"' in run(tmp_path, "counts", "older", kind="in_memory_key_value")
    shutil.rmtree(tmp_path / "state")
    assert "shop-old-changelog" not in run(tmp_path, "counts", "older", kind="in_memory_key_value")
    reported = run(tmp_path, "counts", "older", kind="in_memory_key_value", level="stoatflow_engine=info")
    assert "of stores that the topology doesn't have" in reported.replace("\n", " ")
    assert "shop-old-changelog" in reported
    assert "shop-older-changelog" not in reported
    # Nothing was changed: with its stores back, all of it is there.
    assert TOLD not in run(tmp_path, "counts", "old", "older")
    with EmbeddedBroker(tmp_path / "broker") as broker:
        rows = [(row.key, row.value) for row in broker.read("shop-older-changelog")]
    assert rows == [(b"k", (1).to_bytes(8, "big"))]
