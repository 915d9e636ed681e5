"""Tables with a ttl in running applications: partitions with different times, restarts, lost disks, kills."""

from __future__ import annotations

import random
import shutil
import signal
from pathlib import Path

import pytest

import lives
import stoatflow as sf
from concurrency import until
from stoatflow import EmbeddedBroker, StoatFlow

TTL = 1_000
PARTITIONS = 3
BEHIND = 600_000
"""How far a partition is behind the previous one."""
Row = tuple[str, int, int]
"""Key, timestamp, partition."""


def topology(ttl: int | None = TTL, *, of_stream: bool = False) -> sf.Topology:
    builder = sf.StreamsBuilder()
    kept = sf.Materialized("kept", value=int, ttl=None if ttl is None else f"{ttl}ms", ttl_forward=ttl is not None)
    if of_stream:
        made = builder.stream("in", key=str, value=int).group_by_key().count(store=kept)
    else:
        made = builder.table("in", key=str, value=int, store=kept)
    made.to_stream().to("out")
    return builder.build()


def run(
    tmp_path: Path, broker: EmbeddedBroker, made: sf.Topology, lanes: int, wanted: set[str] | None = None
) -> dict[str, int]:
    """Run until everything is read and, if given, only these keys are left; returns the store."""
    settings = {"application.id": "app", "state.dir": str(tmp_path / "state"), "lanes.count": lanes}
    with StoatFlow(made, sf.Settings(settings, environ={}), broker=broker) as app:
        until(lambda: app.state is sf.State.ERROR or (str(app.state) == "RUNNING" and app.lag() == 0))
        assert app.state is not sf.State.ERROR
        store = app.store("kept")
        # Another barrier may be needed for rows that became due with the last record.
        until(lambda: app.state is sf.State.ERROR or wanted is None or set(dict(store.all())) == wanted)
        # Nothing more expires.
        assert not app.wait(0.3)
        return dict(store.all())


def write(broker: EmbeddedBroker, rows: list[Row]) -> None:
    page = [(partition, key.encode(), b"\0\0\0\0\0\0\0\1", time) for key, time, partition in rows]
    broker.produce_many("in", page)


def inputs(seed: int, count: int) -> list[Row]:
    chance = random.Random(seed)  # noqa: S311  # the same each time
    rows = []
    for at in range(count):
        partition = chance.randrange(PARTITIONS)
        time = 10_000_000 - partition * BEHIND + at * 10 + chance.randrange(-300, 300)
        rows.append((f"{partition}-{chance.randrange(60)}", time, partition))
    return rows


def alive(rows: list[Row], ttl: int = TTL) -> set[str]:
    """The keys whose last row is younger than the ttl, by the time of its partition."""
    highest: dict[int, int] = {}
    last: dict[str, tuple[int, int]] = {}
    for key, time, partition in rows:
        highest[partition] = max(highest.get(partition, -1), time)
        last[key] = (time, partition)
    return {key for key, (time, partition) in last.items() if time + ttl > highest[partition]}


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("of_stream", [False, True])
def test_each_partition_has_a_time_of_its_own(tmp_path: Path, lanes: int, of_stream: bool) -> None:
    """A restart in the middle continues, also with another number of lanes and without its disk."""
    rows = inputs(lanes, 1_200)
    with EmbeddedBroker(tmp_path / "broker") as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic, PARTITIONS)
        made = topology(of_stream=of_stream)
        if not of_stream:
            write(broker, rows[:500])
            wanted = alive(rows[:500])
            assert set(run(tmp_path, broker, made, lanes, wanted)) == wanted
            write(broker, rows[500:800])
            wanted = alive(rows[:800])
            assert set(run(tmp_path, broker, made, 5 - lanes, wanted)) == wanted
            shutil.rmtree(tmp_path / "state")
            write(broker, rows[800:])
        else:
            write(broker, rows)
        if of_stream:
            # The timestamp of a count's row is the highest of its records.
            rows = [
                (key, max(time for other, time, _ in rows[: at + 1] if other == key), partition)
                for at, (key, time, partition) in enumerate(rows)
            ]
        found = run(tmp_path, broker, made, lanes, alive(rows))
        reported = {(row.key or b"").decode(): row.value for row in broker.read("out")}
    assert set(found) == alive(rows)
    assert {key for key, value in reported.items() if value is not None} == set(found)


def test_a_store_that_gets_a_ttl_later(tmp_path: Path) -> None:
    rows = inputs(7, 400)
    with EmbeddedBroker(tmp_path / "broker") as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic, PARTITIONS)
        write(broker, rows)
        all_of_them = {key for key, _, _ in rows}
        assert set(run(tmp_path, broker, topology(None, of_stream=True), 2, all_of_them)) == all_of_them
        later = [(f"{partition}-later", 90_000_000, partition) for partition in range(PARTITIONS)]
        write(broker, later)
        wanted = {key for key, _, _ in later}
        assert set(run(tmp_path, broker, topology(of_stream=True), 3, wanted)) == wanted


def test_a_ttl_that_was_off_for_a_release(tmp_path: Path) -> None:
    """Rows from that release expire too, although there are timers from before."""
    rows = inputs(8, 300)
    with EmbeddedBroker(tmp_path / "broker") as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic, PARTITIONS)
        write(broker, rows)
        assert set(run(tmp_path, broker, topology(), 2, alive(rows))) == alive(rows)
        between = [(f"{partition}-between", 50_000_000, partition) for partition in range(PARTITIONS)]
        write(broker, between)
        run(tmp_path, broker, topology(None), 2)
        later = [(f"{partition}-later", 90_000_000, partition) for partition in range(PARTITIONS)]
        write(broker, later)
        wanted = {key for key, _, _ in later}
        assert set(run(tmp_path, broker, topology(), 3, wanted)) == wanted


APP = """
import sys
from pathlib import Path
import stoatflow as sf

folder = Path(sys.argv[1])
builder = sf.StreamsBuilder()
kept = sf.Materialized("kept", ttl="40ms", ttl_forward=True)
builder.table("in", key=str, value=bytes, store=kept).to_stream().to("out")
config = {"application.id": "app", "state.dir": str(folder / "state"), "lanes.count": int(sys.argv[2])}
with sf.EmbeddedBroker(folder / "broker") as broker, sf.StoatFlow(builder.build(), config, broker=broker) as app:
    while not (str(app.state) == "RUNNING" and app.lag() == 0):
        if app.wait(timeout=0.02):
            raise SystemExit(1)
"""
PLACES = ["lane.barrier", "lane.seal", "commit.before-changelog", "commit.before-commit", "commit.during-apply"]


@pytest.mark.parametrize("place", PLACES)
def test_a_kill_at_a_failpoint_loses_and_duplicates_no_tombstone(tmp_path: Path, place: str) -> None:
    def written(first: int, last: int) -> None:
        with EmbeddedBroker(tmp_path / "broker") as broker:
            for topic in ("in", "out"):
                broker.create_topic(topic, 1)
            broker.produce_many("in", ((0, f"k{n}".encode(), b"x", n) for n in range(first, last)))

    written(0, 60)
    code, errors = lives.run("-c", APP, tmp_path, "1")
    assert code == 0, errors
    written(60, 120)
    code, errors = lives.run("-c", APP, tmp_path, "3", failpoints=lives.kill_at(place))
    assert code == -signal.SIGKILL, errors
    written(500, 501)
    code, errors = lives.run("-c", APP, tmp_path, "2")
    assert code == 0, errors
    with EmbeddedBroker(tmp_path / "broker") as broker:
        reported = [((row.key or b"").decode(), row.value, row.timestamp) for row in broker.read("out")]
    expected = [(f"k{n}", b"x", n) for n in (*range(120), 500)] + [(f"k{n}", None, n + 40) for n in range(120)]
    assert sorted(reported, key=repr) == sorted(expected, key=repr)
