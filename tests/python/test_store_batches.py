"""`to_arrow` and `arrow_batches`: the rows of stores, as of the last commit, while the application is running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import stoatflow as sf
from stoatflow import EmbeddedBroker, State, StoatFlow
from stoatflow.testing import TopologyTestDriver


def counting() -> sf.Topology:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).group_by_key().count(store="counts")
    return builder.build()


def test_a_count() -> None:
    with TopologyTestDriver(counting()) as driver:
        empty = driver.to_arrow("counts")
        assert empty.num_rows == 0
        topic = driver.input("in", str, str)
        for at, key in enumerate(["b", "a", "b"]):
            topic.pipe(key, "x", timestamp=at + 1)
        table = driver.to_arrow("counts")
    assert isinstance(table, pa.Table)
    table.validate(full=True)
    assert table.schema == empty.schema
    assert table.schema == pa.schema(
        [
            ("_key", pa.string()),
            ("value", pa.int64()),
            pa.field("_timestamp", pa.timestamp("ms", "UTC"), nullable=False),
        ]
    )
    assert table.select(["_key", "value"]).to_pydict() == {"_key": ["a", "b"], "value": [1, 2]}
    assert pc.cast(table["_timestamp"], pa.int64()).to_pylist() == [2, 3]


def test_uncommitted_rows_are_invisible() -> None:
    with TopologyTestDriver(counting()) as driver:
        topic = driver.input("in", str, str)
        topic.pipe("a", "x")
        with driver.epoch():
            topic.pipe("a", "x")
            assert driver.to_arrow("counts")["value"].to_pylist() == [1]
        assert driver.to_arrow("counts")["value"].to_pylist() == [2]
        driver.crash()
        with pytest.raises(sf.ConfigError, match="restart"):
            driver.to_arrow("counts")
        driver.restart(lanes=3)
        assert driver.to_arrow("counts")["value"].to_pylist() == [2]


def table_of(values: dict[str, Any], **options: Any) -> pa.Table:
    builder = sf.StreamsBuilder()
    builder.table("t", key=str, value=dict, store="t")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("t", str, dict).pipe_all(values.items())
        return driver.to_arrow("t", **options)


def test_members_are_columns() -> None:
    values = {"a": {"n": 1}, "b": {"n": 2.5, "at": {"lat": 1.5}}, "c": {"tags": ["x"]}}
    table = table_of(values)
    assert table.column_names == ["_key", "n", "at", "tags", "_timestamp"]
    assert table.schema.field("n").type == pa.float64()
    assert table.drop(["_timestamp"]).to_pylist() == [
        {"_key": "a", "n": 1.0, "at": None, "tags": None},
        {"_key": "b", "n": 2.5, "at": {"lat": 1.5}, "tags": None},
        {"_key": "c", "n": None, "at": None, "tags": ["x"]},
    ]


def test_a_schema() -> None:
    schema = pa.schema([("n", pa.int32())])
    table = table_of({"a": {"n": 1, "more": [1, "x"]}}, schema=schema)
    assert table.schema.field("n").type == pa.int32()
    assert table.column_names == ["_key", "n", "_timestamp"]
    with pytest.raises(sf.SerdeError, match="the key 'b'") as caught:
        table_of({"b": {"n": 2.5}}, schema=schema)
    assert "schema=" in caught.value.next_step


def test_members_of_several_types_are_named() -> None:
    with pytest.raises(sf.SerdeError, match=r"the store 't' .* the key 'b'"):
        table_of({"a": {"n": 1}, "b": {"n": "x"}})


def test_windows_and_sessions() -> None:
    builder = sf.StreamsBuilder()
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    windows_of, sessions_of = sf.TimeWindows("10ms", grace="0ms"), sf.SessionWindows("5ms", grace="0ms")
    grouped.windowed_by(windows_of).count(store=sf.Materialized("windows", retention="1m"))
    grouped.windowed_by(sessions_of).count(store=sf.Materialized("sessions", retention="1m"))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.input("in", str, str)
        for at in (1, 4, 12):
            topic.pipe("k", "x", timestamp=at)
        windows, sessions = driver.to_arrow("windows"), driver.to_arrow("sessions")
        # Expired, but still in the same segment of the store.
        topic.pipe("late", "x", timestamp=60_005)
        later = driver.to_arrow("windows")
        assert len(driver.store("windows")) == later.num_rows == 2
    assert windows.column_names == ["_key", "_window_start", "_window_end", "value", "_timestamp"]
    assert times(windows) == [(0, 10, 2), (10, 20, 1)]
    assert times(sessions) == [(1, 4, 2), (12, 12, 1)]
    assert times(later) == [(10, 20, 1), (60_000, 60_010, 1)]


def times(table: pa.Table) -> list[tuple[int, int, int]]:
    whole = [pc.cast(table[name], pa.int64()).to_pylist() for name in ("_window_start", "_window_end", "value")]
    return sorted(zip(*whole, strict=True))


def test_a_versioned_table_shows_current_values() -> None:
    builder = sf.StreamsBuilder()
    builder.table("t", key=str, value=int, store=sf.Materialized("t", history="1h"))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.input("t", str, int)
        for key, value, at in [("a", 1, 1), ("a", 2, 5), ("b", 3, 2), ("b", None, 6)]:
            topic.pipe(key, value, timestamp=at)
        table = driver.to_arrow("t")
    assert table.select(["_key", "value"]).to_pylist() == [{"_key": "a", "value": 2}]


def test_a_global_table_and_a_store_of_a_processor() -> None:
    class Keeps(sf.ContextualProcessor[str, int, str, int]):
        def process(self, record: sf.Record[str, int]) -> None:
            self.context.state_store("own").put((record.key or "") * 2, record.value)

    builder = sf.StreamsBuilder()
    builder.global_table("g", key=str, value=int, store="all")
    builder.add_state_store(sf.Stores.in_memory_key_value("own", key=str, value=int))
    builder.stream("in", key=str, value=int).process(Keeps, stores=["own"])
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("g", str, int).pipe("a", 1)
        driver.input("in", str, int).pipe("b", 2)
        for store, key, value in (("all", "a", 1), ("own", "bb", 2)):
            assert driver.to_arrow(store).select(["_key", "value"]).to_pylist() == [{"_key": key, "value": value}]


def test_keys_of_a_table_may_be_windows() -> None:
    builder = sf.StreamsBuilder()
    serde = sf.Serdes.time_windowed(str, "10ms")
    builder.table("counted", key=serde, value=int, store="again")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("counted", serde, int).pipe(sf.Windowed("k", sf.Window(10, 20)), 7)
        table = driver.to_arrow("again")
    assert table.column_names == ["_key", "_window_start", "_window_end", "value", "_timestamp"]
    assert (table["_key"].to_pylist(), times(table)) == (["k"], [(10, 20, 7)])


class Celsius(sf.Serde[float]):
    """A user's serde."""

    def serialize(self, value: float) -> bytes:
        return str(value).encode()

    def deserialize(self, data: bytes) -> float:
        return float(data)


def test_serdes_of_the_user() -> None:
    builder = sf.StreamsBuilder()
    builder.table("t", key=str, value=Celsius(), store="t")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("t", str, Celsius()).pipe_all([("a", 1.5), ("b", 2.0)])
        table = driver.to_arrow("t")
    assert table["value"].to_pylist() == [1.5, 2.0]


def test_a_reader_shows_one_moment_batch_by_batch() -> None:
    with TopologyTestDriver(counting()) as driver:
        topic = driver.input("in", str, str)
        topic.pipe_all((f"{n:03}", "x") for n in range(250))
        reader = driver.arrow_batches("counts", max_rows=100)
        assert isinstance(reader, pa.RecordBatchReader)
        first = reader.read_next_batch()
        topic.pipe_all((f"{n:03}", "x") for n in range(300))
        rest = list(reader)
        assert [first.num_rows, *(batch.num_rows for batch in rest)] == [100, 100, 50]
        everything = pa.Table.from_batches([first, *rest])
        assert everything["_key"].to_pylist() == [f"{n:03}" for n in range(250)]
        assert set(everything["value"].to_pylist()) == {1}
        assert driver.to_arrow("counts")["value"].to_pylist() == [2] * 250 + [1] * 50


def test_a_crash_ends_a_reader() -> None:
    with TopologyTestDriver(counting()) as driver:
        driver.input("in", str, str).pipe_all((str(n), "x") for n in range(9))
        reader = driver.arrow_batches("counts", max_rows=2)
        reader.read_next_batch()
        driver.crash()
        driver.restart(lanes=1)
        with pytest.raises(sf.ConfigError, match="restarted"):
            reader.read_next_batch()
        assert driver.to_arrow("counts").num_rows == 9


ASKED: list[tuple[Callable[[TopologyTestDriver], object], str, str]] = [
    (lambda d: d.to_arrow("count"), "no store named 'count'", "did you mean 'counts'"),
    (lambda d: d.to_arrow("counts", schema=5), "needs a pyarrow.Schema", "pa.schema"),
    (lambda d: d.to_arrow("counts", schema=pa.schema([("value", pa.duration("s"))])), "'value' of type", "int64"),
    (lambda d: d.to_arrow("counts", schema=pa.schema([("_timestamp", pa.int64())])), "added to each batch", "schema"),
    (lambda d: d.arrow_batches("counts", max_rows=0), "from 1 on, not 0", "65536"),
    (lambda d: d.arrow_batches("counts", max_rows=2**21), "max_rows=2097152 must be", "schema"),
]


@pytest.mark.parametrize(("ask", "message", "next_step"), ASKED)
def test_invalid_arguments_are_refused(
    ask: Callable[[TopologyTestDriver], object], message: str, next_step: str
) -> None:
    with TopologyTestDriver(counting()) as driver, pytest.raises(sf.ConfigError) as caught:
        ask(driver)
    assert message in str(caught.value)
    assert next_step in caught.value.next_step


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


@pytest.mark.parametrize("in_memory", [False, True])
def test_readers_beside_a_running_application(tmp_path: Path, in_memory: bool) -> None:
    """Each record counts for two keys: a reader always sees whole commits, and never an older one."""
    records = 20_000
    config = sf.Settings(
        {"application.id": "read", "state.dir": str(tmp_path / "state"), "lanes.count": 3, "commit.min.interval.ms": 1,
         "in.flight.max.bytes": "64KiB"},
        environ={},
    )  # fmt: skip
    with EmbeddedBroker(tmp_path / "broker") as broker:
        broker.create_topic("in", 3)
        broker.produce_many("in", ((None, b"k%d" % n, n.to_bytes(8, "big"), n + 1) for n in range(records)))
        app = StoatFlow(twice(in_memory), config, broker=broker)
        with pytest.raises(sf.ConfigError, match="not running") as caught:
            app.to_arrow("counts")
        assert "RUNNING" in caught.value.next_step
        with app:
            until(lambda: app.state is State.RUNNING)
            failures: list[BaseException] = []
            moments: list[set[int]] = [set(), set()]
            threads = [threading.Thread(target=watch, args=(app, failures, seen, records)) for seen in moments]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not failures
            assert all(seen and max(seen) == 2 * records for seen in moments)
            last = app.to_arrow("counts")
            assert last.num_rows == 100
            assert set(last["value"].to_pylist()) == {records // 50}
            held = app.arrow_batches("counts", max_rows=10)
            held.read_next_batch()
        with pytest.raises(sf.ConfigError, match="has ended"):
            held.read_next_batch()
        # A reader that is still held doesn't prevent another start.
        with StoatFlow(twice(in_memory), config, broker=broker) as again:
            until(lambda: again.state is State.RUNNING)
            assert again.to_arrow("counts")["_key"].to_pylist() == last["_key"].to_pylist()


def twice(in_memory: bool) -> sf.Topology:
    builder = sf.StreamsBuilder()
    numbers = builder.stream("in", key=str, value=int)
    both = numbers.flat_map(lambda _, n: [(f"left-{n % 50}", n), (f"right-{n % 50}", n)])
    kept = sf.Materialized("counts", type="memory" if in_memory else "rocksdb")
    both.group_by_key(key=str, value=int).count(store=kept)
    return builder.build()


def watch(app: StoatFlow, failures: list[BaseException], seen: set[int], records: int) -> None:
    try:
        before = 0
        deadline = time.monotonic() + 60
        while before < 2 * records:
            assert time.monotonic() < deadline, f"it came no further than {before}"
            table = app.to_arrow("counts")
            counts = dict(zip(table["_key"].to_pylist(), table["value"].to_pylist(), strict=True))
            left, right = (
                {key.split("-")[1]: n for key, n in counts.items() if key.startswith(side)}
                for side in ("left", "right")
            )
            assert left == right, "half a commit"
            total = sum(counts.values())
            assert total >= before, "it went back"
            before = total
            seen.add(total)
    except BaseException as error:
        failures.append(error)


def test_an_open_reader_does_not_block_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is reopened in the same process: old readers get an error, and hold no lock."""
    monkeypatch.setenv("STOATFLOW_FAILPOINTS", "commit.before-commit=error@6")
    config = sf.Settings({"application.id": "anew", "state.dir": str(tmp_path / "state")}, environ={})
    with EmbeddedBroker(tmp_path / "broker") as broker:
        broker.create_topic("in", 1)
        with StoatFlow(counting(), config, broker=broker) as app:
            until(lambda: app.state is State.RUNNING)
            broker.produce_many("in", ((None, b"k%d" % n, b"x", n + 1) for n in range(9)))
            until(lambda: app.lag() == 0 and app.to_arrow("counts").num_rows == 9)
            reader = app.arrow_batches("counts", max_rows=2)
            reader.read_next_batch()
            commits = 0
            while not app.metrics()["restarts"]:
                commits += 1
                assert commits < 600, "the failpoint was never met"
                broker.produce("in", b"late", b"x", timestamp=20)
                time.sleep(0.05)
            # The lag is measured from the last known end: it ignores records that were produced just now.
            expected = {**{f"k{n}": 1 for n in range(9)}, "late": commits}
            until(lambda: app.state is State.ERROR or (app.state is State.RUNNING and counted(app) == expected))
            # Otherwise it would have waited for the lock of its own state, and given up.
            assert app.error is None
            with pytest.raises(sf.ConfigError, match="restarted"):
                reader.read_next_batch()


def counted(app: StoatFlow) -> dict[str, int]:
    try:
        counts = app.to_arrow("counts")
    except sf.ConfigError:
        return {}
    return dict(zip(counts["_key"].to_pylist(), counts["value"].to_pylist(), strict=True))


APPLICATION = """
import json, sys, time
import stoatflow as sf

builder = sf.StreamsBuilder()
builder.stream("in", key=str, value=str).group_by_key().count(store="counts")
app = sf.StoatFlow(builder.build(), {
    "application.id": "counting", "bootstrap.servers": sys.argv[1], "state.dir": sys.argv[2], "lanes.count": 2,
    "commit.min.interval.ms": 1, "in.flight.max.bytes": "64KiB",
})
with app:
    while str(app.state) != "RUNNING":
        time.sleep(0.01)
    while True:
        done = not app.lag()
        table = app.to_arrow("counts")
        print(json.dumps([sum(table["value"].to_pylist()), table.num_rows]), flush=True)
        if done:
            break
"""


def test_a_kill_loses_no_row_and_rolls_back_no_value(tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(sf.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", APPLICATION, f"embedded:{tmp_path / 'broker'}", str(tmp_path / "state")]
    records, seen = 30_000, [0]
    with EmbeddedBroker(tmp_path / "broker") as broker:
        broker.create_topic("in", 2)
        broker.produce_many("in", ((None, b"k%d" % (n % 97), b"x", n + 1) for n in range(records)))
    for kill in (True, True, False):
        start = seen[-1]
        with subprocess.Popen(
            command, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE, text=True
        ) as life:
            assert life.stdout is not None
            for line in life.stdout:
                total, rows = json.loads(line)
                assert total >= seen[-1], "what was committed is gone"
                seen.append(total)
                if kill and total > start and rows:
                    life.send_signal(signal.SIGKILL)
                    break
    assert seen[-1] == records


def test_a_missing_pyarrow_says_what_to_install() -> None:
    program = """
import sys
sys.modules["pyarrow"] = None
import stoatflow as sf
from stoatflow.testing import TopologyTestDriver
builder = sf.StreamsBuilder()
builder.stream("in", key=str, value=str).group_by_key().count(store="counts")
with TopologyTestDriver(builder.build()) as driver:
    try:
        driver.to_arrow("counts")
    except sf.ConfigError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'stoatflow[arrow]'" in done.stdout
