"""An index equals its store after a real SIGKILL, at each step of a commit, a restore and a build."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

import lives
from stoatflow import EmbeddedBroker

RECORDS = 2_000
APP = """
import sys
import stoatflow as sf
from pathlib import Path

folder, indexed = Path(sys.argv[1]), sys.argv[2] == "indexed"
group, n, tags = sf.value["group"], sf.value["n"], sf.value["tags"]
by_name = sf.Index("by_name", sf.value["name"], unique=True)
indexes = [sf.Index("by_group", group, n), sf.Index("by_tag", tags, each=True), by_name]
builder = sf.StreamsBuilder()
docs = sf.Materialized("docs", key=str, value=dict, indexes=indexes if indexed else [])
builder.table("in", key=str, value=dict, store=docs)
config = {"application.id": "app", "state.dir": str(folder / "state"), "lanes.count": 3}
with sf.EmbeddedBroker(folder / "broker") as broker, sf.StoatFlow(builder.build(), config, broker=broker) as app:
    while not (str(app.state) == "RUNNING" and app.lag() == 0):
        if app.wait(timeout=0.02):
            raise SystemExit(1)
    if not indexed:
        raise SystemExit(0)
    with app.snapshot() as at:
        docs = at.store("docs")
        rows = list(docs.all())
        assert len(rows) > 100
        for wanted in range(7):
            found = docs.find(group == wanted)
            assert found.plan.way == "index"
            assert sorted(found) == [row for row in rows if row[1]["group"] == wanted], wanted
            found = docs.find(tags.list.contains(wanted))
            assert found.plan.way == "index"
            assert list(found) == [row for row in rows if wanted in row[1]["tags"]], wanted
        for key, document in rows[::50]:
            assert docs.find(sf.value["name"] == document["name"], select=sf.key) == [key]
"""
COMMIT = ["lane.seal", "commit.before-commit", "commit.before-apply", "commit.during-apply", "commit.after-apply"]


def live(folder: Path, failpoints: str = "", indexed: bool = True) -> tuple[int, str]:
    """A life of the application: exit code and output."""
    return lives.run("-c", APP, folder, "indexed" if indexed else "plain", failpoints=failpoints)


def write(folder: Path, first: int, last: int) -> None:
    """Documents with 400 keys, some of which are deleted again."""
    with EmbeddedBroker(folder / "broker") as broker:
        broker.create_topic("in", 3)
        records = []
        for at in range(first, last):
            key = at * 31 % 400
            document = {"group": at % 7, "n": at, "tags": [at % 5, at % 3], "name": f"name-{key}"}
            records.append((None, b"k%d" % key, None if at % 11 == 0 else json.dumps(document).encode(), at))
        broker.produce_many("in", records)


@pytest.mark.parametrize("place", COMMIT)
def test_a_kill_in_a_commit(tmp_path: Path, place: str) -> None:
    write(tmp_path, 0, RECORDS)
    code, errors = live(tmp_path, f"{place}=kill@3")
    assert code == -signal.SIGKILL, errors
    write(tmp_path, RECORDS, 2 * RECORDS)
    code, errors = live(tmp_path)
    assert code == 0, errors


def test_a_kill_in_a_restore(tmp_path: Path) -> None:
    write(tmp_path, 0, RECORDS)
    assert live(tmp_path)[0] == 0
    shutil.rmtree(tmp_path / "state")
    code, errors = live(tmp_path, "restore.batch=kill@1")
    assert code == -signal.SIGKILL, errors
    code, errors = live(tmp_path)
    assert code == 0, errors


def test_a_kill_in_a_run_without_the_index(tmp_path: Path) -> None:
    write(tmp_path, 0, RECORDS)
    assert live(tmp_path)[0] == 0
    write(tmp_path, RECORDS, 2 * RECORDS)
    code, errors = live(tmp_path, "commit.after-apply=kill@2", indexed=False)
    assert code == -signal.SIGKILL, errors
    code, errors = live(tmp_path)
    assert code == 0, errors
