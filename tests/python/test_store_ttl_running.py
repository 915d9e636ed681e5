"""Stores of processors with a ttl in running applications: partitions, lanes, restarts, lost disks, kills."""

from __future__ import annotations

import random
import shutil
import signal
from pathlib import Path

import pytest

import lives
import stoatflow as sf
from concurrency import until
from stoatflow import EmbeddedBroker, Record, StoatFlow, Stores

TTL = 1_000
PARTITIONS = 3
BEHIND = 600_000
"""How far a partition is behind the previous one."""
SEEN = b"\0\0\0\0\0\0\0\1"


class Counts(sf.ContextualProcessor[str, int, str, int]):
    """Counts the records of a key since its row expired last."""

    def process(self, record: Record[str, int]) -> None:
        count = self.context.state_store("kept").merge(record.key, 1, lambda had, more: had + more)
        self.context.forward(record.replace(value=count))


def topology(ttl: int | None = TTL) -> sf.Topology:
    builder = sf.StreamsBuilder()
    builder.add_state_store(Stores.key_value("kept", key=str, value=int, ttl=None if ttl is None else f"{ttl}ms"))
    builder.stream("in", key=str, value=int).process(Counts, stores=["kept"]).to("out", key=str, value=int)
    return builder.build()


Row = tuple[str, int, int]
"""Key, timestamp, partition."""


def write(broker: EmbeddedBroker, rows: list[Row]) -> None:
    broker.produce_many("in", [(partition, key.encode(), SEEN, time) for key, time, partition in rows])


def run(
    tmp_path: Path, broker: EmbeddedBroker, made: sf.Topology, lanes: int, wanted: set[str] | None
) -> dict[str, int]:
    """Run until everything is read and only these keys are left; returns the store."""
    settings = {"application.id": "app", "state.dir": str(tmp_path / "state"), "lanes.count": lanes}
    with StoatFlow(made, sf.Settings(settings, environ={}), broker=broker) as app:
        until(lambda: app.state is sf.State.ERROR or (str(app.state) == "RUNNING" and app.lag() == 0))
        assert app.state is not sf.State.ERROR
        store = app.store("kept")
        until(lambda: app.state is sf.State.ERROR or wanted is None or set(dict(store.all())) == wanted)
        # Nothing more expires.
        assert not app.wait(0.3)
        return dict(store.all())


def inputs(seed: int, count: int) -> list[Row]:
    chance = random.Random(seed)  # noqa: S311  # the same each time
    rows = []
    for at in range(count):
        partition = chance.randrange(PARTITIONS)
        time = 10_000_000 - partition * BEHIND + at * 10 + chance.randrange(-300, 300)
        rows.append((f"{partition}-{chance.randrange(60)}", time, partition))
    return rows


def expected(rows: list[Row]) -> tuple[dict[str, int], dict[str, list[int]]]:
    """The rows that are left, and the counts of each key: by the stream time of its partition."""
    highest: dict[int, int] = {}
    kept: dict[str, tuple[int, int, int]] = {}
    counts: dict[str, list[int]] = {}
    for key, time, partition in rows:
        highest[partition] = max(highest.get(partition, -1), time)
        count, since, _ = kept.get(key, (0, 0, 0))
        alive = count > 0 and since + TTL > highest[partition]
        kept[key] = (count + 1 if alive else 1, time, partition)
        counts.setdefault(key, []).append(kept[key][0])
    left = {key: n for key, (n, time, partition) in kept.items() if time + TTL > highest[partition]}
    return left, counts


@pytest.mark.parametrize("lanes", [1, 4])
def test_each_partition_has_a_time_of_its_own(tmp_path: Path, lanes: int) -> None:
    """The results depend neither on barriers nor on lanes nor on restarts, also without the disk."""
    rows = inputs(lanes, 1_200)
    with EmbeddedBroker(tmp_path / "broker") as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic, PARTITIONS)
        made = topology()
        write(broker, rows[:500])
        assert run(tmp_path, broker, made, lanes, set(expected(rows[:500])[0])) == expected(rows[:500])[0]
        write(broker, rows[500:800])
        assert run(tmp_path, broker, made, 5 - lanes, set(expected(rows[:800])[0])) == expected(rows[:800])[0]
        shutil.rmtree(tmp_path / "state")
        write(broker, rows[800:])
        left, counts = expected(rows)
        assert run(tmp_path, broker, made, lanes, set(left)) == left
        reported: dict[str, list[int]] = {}
        for row in broker.read("out"):
            reported.setdefault((row.key or b"").decode(), []).append(int.from_bytes(row.value or b"", "big"))
        changelog = {row.key: row.value for row in broker.read("app-kept-changelog")}
    assert reported == counts
    alive = {(key or b"").decode() for key, value in changelog.items() if value is not None}
    assert alive == set(left), "the changelog has a tombstone for each expired row"


def test_a_store_that_gets_a_ttl_later(tmp_path: Path) -> None:
    rows = inputs(7, 400)
    with EmbeddedBroker(tmp_path / "broker") as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic, PARTITIONS)
        write(broker, rows)
        all_of_them = {key for key, _, _ in rows}
        assert set(run(tmp_path, broker, topology(None), 2, all_of_them)) == all_of_them
        later = [(f"{partition}-later", 90_000_000, partition) for partition in range(PARTITIONS)]
        write(broker, later)
        wanted = {key for key, _, _ in later}
        assert set(run(tmp_path, broker, topology(), 3, wanted)) == wanted


def test_keys_that_all_partitions_write(tmp_path: Path) -> None:
    """Such a key has no task of its own; still each row expires in the end."""
    chance = random.Random(3)  # noqa: S311  # the same each time
    rows = [
        (f"shared-{chance.randrange(20)}", at * 20 + chance.randrange(200), chance.randrange(PARTITIONS))
        for at in range(600)
    ]
    with EmbeddedBroker(tmp_path / "broker") as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic, PARTITIONS)
        write(broker, rows)
        run(tmp_path, broker, topology(), 4, None)
        later = [(f"{partition}-later", 90_000_000, partition) for partition in range(PARTITIONS)]
        write(broker, later)
        wanted = {key for key, _, _ in later}
        assert set(run(tmp_path, broker, topology(), 3, wanted)) == wanted


def test_indexes_lose_expired_rows(tmp_path: Path) -> None:
    class Puts(sf.ContextualProcessor[str, dict[str, object], str, str]):
        def process(self, record: Record[str, dict[str, object]]) -> None:
            self.context.state_store("kept").put(record.key, record.value)

    builder = sf.StreamsBuilder()
    indexes = [sf.Index("by_team", sf.value["team"])]
    builder.add_state_store(Stores.key_value("kept", key=str, value=dict, ttl="1s", indexes=indexes))
    builder.stream("in", key=str, value=dict).process(Puts, stores=["kept"])
    settings = {"application.id": "app", "state.dir": str(tmp_path / "state")}
    with EmbeddedBroker(tmp_path / "broker") as broker:
        broker.create_topic("in", 1)

        def found(app: StoatFlow) -> set[str]:
            rows = app.store("kept").find(sf.value["team"] == "red")
            plan = sf.QueryPlan("index", "by_team", 1, False, False, len(rows), 0)
            assert rows.plan == plan, "no entry without a row"
            return {key for key, _ in rows}

        with StoatFlow(builder.build(), sf.Settings(settings, environ={}), broker=broker) as app:
            rows = [("a", 0), ("b", 500), ("c", 900)]
            broker.produce_many("in", [(0, key.encode(), b'{"team": "red"}', time) for key, time in rows])
            until(lambda: app.state is sf.State.RUNNING)
            until(lambda: found(app) == {"a", "b", "c"})
            broker.produce_many("in", [(0, b"d", b'{"team": "blue"}', 1_500)])
            until(lambda: found(app) == {"c"})
            assert app.state is not sf.State.ERROR


APP = """
import sys
from pathlib import Path
import stoatflow as sf

class Puts(sf.ContextualProcessor[str, bytes, str, bytes]):
    def process(self, record):
        kept = self.context.state_store("kept")
        had = kept.get(record.key)
        kept.put(record.key, record.value)
        self.context.forward(record.replace(value=b"new" if had is None else b"again"))

folder = Path(sys.argv[1])
builder = sf.StreamsBuilder()
builder.add_state_store(sf.Stores.key_value("kept", key=str, value=bytes, ttl="40ms"))
builder.stream("in", key=str, value=bytes).process(Puts, stores=["kept"]).to("out", key=str, value=bytes)
config = {"application.id": "app", "state.dir": str(folder / "state"), "lanes.count": int(sys.argv[2])}
with sf.EmbeddedBroker(folder / "broker") as broker, sf.StoatFlow(builder.build(), config, broker=broker) as app:
    while not (str(app.state) == "RUNNING" and app.lag() == 0):
        if app.wait(timeout=0.02):
            raise SystemExit(1)
"""
PLACES = ["lane.barrier", "lane.seal", "commit.before-changelog", "commit.before-commit", "commit.during-apply"]


@pytest.mark.parametrize("place", PLACES)
def test_a_kill_at_a_failpoint_brings_no_expired_row_back(tmp_path: Path, place: str) -> None:
    def written(rows: list[tuple[str, int]]) -> None:
        with EmbeddedBroker(tmp_path / "broker") as broker:
            for topic in ("in", "out"):
                broker.create_topic(topic, 1)
            broker.produce_many("in", ((0, key.encode(), b"x", time) for key, time in rows))

    written([(f"k{n}", n) for n in range(60)])
    code, errors = lives.run("-c", APP, tmp_path, "1")
    assert code == 0, errors
    written([(f"k{n}", n) for n in range(60, 120)])
    code, errors = lives.run("-c", APP, tmp_path, "3", failpoints=lives.kill_at(place))
    assert code == -signal.SIGKILL, errors
    shutil.rmtree(tmp_path / "state", ignore_errors=True)
    # Rows of 81 and later are alive at 120; that of 80 is due.
    again = [("k119", 120), ("k81", 120), ("k80", 120), ("k30", 120)]
    written(again)
    code, errors = lives.run("-c", APP, tmp_path, "2")
    assert code == 0, errors
    with EmbeddedBroker(tmp_path / "broker") as broker:
        reported = [((row.key or b"").decode(), row.value, row.timestamp) for row in broker.read("out")]
        changelog = {(row.key or b"").decode(): row.value for row in broker.read("app-kept-changelog")}
    answers = {"k119": b"again", "k81": b"again", "k80": b"new", "k30": b"new"}
    wanted = [(f"k{n}", b"new", n) for n in range(120)] + [(key, answers[key], time) for key, time in again]
    assert sorted(reported) == sorted(wanted)
    alive = {key for key, value in changelog.items() if value is not None}
    assert alive == {f"k{n}" for n in range(81, 120)} | {"k80", "k30"}
