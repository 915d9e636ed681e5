"""Reads of committed state from outside: `app.store`, `app.snapshot`."""

from __future__ import annotations

import asyncio
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from committed import HeldUp, Make, read
from concurrency import until
from stoatflow import EmbeddedBroker, Record, State, StoatFlow, Stores, ValueAndTimestamp, VersionedRecord, Window


def put(broker: EmbeddedBroker, *records: tuple[str, int, int]) -> None:
    """Records of key, value and timestamp."""
    broker.produce_many("in", ((None, key.encode(), value.to_bytes(8, "big"), at) for key, value, at in records))


def table() -> sf.Topology:
    builder = sf.StreamsBuilder()
    builder.table("in", key=str, value=int, store=sf.Materialized("rows", key=str, value=int))
    return builder.build()


@pytest.mark.parametrize("backend", ["rocksDB", "in_memory"])
def test_a_value_per_key(broker: EmbeddedBroker, make: Make, backend: str) -> None:
    put(broker, ("a", 1, 10), ("ab", 2, 20), ("b", 3, 30), ("c", 4, 40))
    with make(table(), **{"default.dsl.store": backend}) as app:
        read(app, broker)
        rows = app.store("rows")
        assert (rows.get("a"), rows["ab"], rows.get("z"), rows.get("z", 0)) == (1, 2, None, 0)
        assert ("b" in rows, "z" in rows) == (True, False)
        with pytest.raises(KeyError, match=r"z"):
            rows["z"]
        assert rows.get_many(["c", "z", "a"]) == {"c": 4, "a": 1}
        everything = [("a", 1), ("ab", 2), ("b", 3), ("c", 4)]
        assert list(rows.all()) == everything
        assert list(rows.all(reverse=True)) == list(rows.reverse_all()) == everything[::-1]
        assert list(rows) == ["a", "ab", "b", "c"]
        assert list(rows.range("ab", "b")) == everything[1:3]
        assert list(rows.range("c", "a")) == []
        assert list(rows.range(hi="ab", reverse=True)) == list(rows.reverse_range(hi="ab")) == everything[1::-1]
        assert list(rows.prefix_scan("a")) == everything[:2]
        assert list(rows.prefix_scan(b"a", reverse=True)) == everything[1::-1]
        assert (rows.count(), rows.count("ab", "b"), rows.count(prefix="a"), rows.count("x")) == (4, 2, 2, 0)
        timed = app.store("rows", timestamps=True)
        assert timed["b"] == ValueAndTimestamp(3, 30)
        assert next(timed.all()) == ("a", ValueAndTimestamp(1, 10))
        assert repr(rows) == "<ReadOnlyKeyValueStore 'rows'>"


def test_more_than_a_page(broker: EmbeddedBroker, make: Make) -> None:
    count = 2_500
    put(broker, *((f"k{n:05}", n, n) for n in range(count)))
    with make(table()) as app:
        read(app, broker)
        rows = app.store("rows")
        wanted = [(f"k{n:05}", n) for n in range(count)]
        assert list(rows.all()) == wanted
        assert list(rows.reverse_range("k00400", "k02200")) == wanted[400:2201][::-1]
        assert rows.count() == count


def test_windows_sessions_and_versions(broker: EmbeddedBroker, make: Make) -> None:
    builder = sf.StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    by_time = grouped.windowed_by(sf.TimeWindows.of_size_with_no_grace("10ms"))
    by_time.count(store=sf.Materialized("windows", key=str, retention="1h"))
    by_gap = grouped.windowed_by(sf.SessionWindows.of_inactivity_gap_with_no_grace("5ms"))
    by_gap.count(store=sf.Materialized("sessions", key=str, retention="1h"))
    grouped.reduce(lambda _old, new: new, store=sf.Materialized("versions", key=str, value=int, history="1h"))
    put(broker, ("a", 1, 3), ("a", 2, 5), ("b", 3, 12), ("a", 4, 21))
    with make(builder.build()) as app:
        read(app, broker)
        windows = app.store("windows")
        assert windows.fetch("a", 0) == 2
        assert windows.fetch("a", 10) is None
        assert windows.fetch("a") == [(0, 2), (20, 1)]
        assert windows.fetch("a", reverse=True) == [(20, 1), (0, 2)]
        assert windows.fetch("a", frm=1, to=20) == [(20, 1)]
        named = [(each.key, each.window.start, value) for each, value in windows.all()]
        assert named == [("a", 0, 2), ("a", 20, 1), ("b", 10, 1)]
        assert [value for _, value in windows.fetch_all(0, 10)] == [2, 1]
        assert [each.window for each, _ in windows.fetch_range("b", "c")] == [Window(10, 20)]
        assert app.store("windows", timestamps=True).fetch("a", 0) == ValueAndTimestamp(2, 5)

        sessions = app.store("sessions")
        assert [(each.key, each.window, value) for each, value in sessions.fetch("a")] == [
            ("a", Window(3, 5), 2),
            ("a", Window(21, 21), 1),
        ]
        assert sessions.fetch_session("a", 3, 5) == 2
        assert sessions.fetch_session("a", 3, 6) is None
        assert [each.key for each, _ in sessions.find_sessions(earliest_end=6, latest_start=20)] == ["b"]
        assert len(sessions.all()) == 3

        versions = app.store("versions")
        assert versions.get("a") == VersionedRecord(4, 21)
        assert versions.get("a", as_of=10) == VersionedRecord(2, 5, 21)
        assert versions.get("a", as_of=2) is None
        assert [version.value for version in versions.history("a", 4, 21)] == [1, 2, 4]


def test_a_snapshot_does_not_change(broker: EmbeddedBroker, make: Make) -> None:
    put(broker, ("a", 1, 10))
    with make(table()) as app:
        read(app, broker)
        with app.snapshot() as before:
            rows = before.store("rows")
            positions = before.positions
            put(broker, ("a", 2, 20), ("b", 3, 30))
            read(app, broker)
            assert (rows["a"], "b" in rows, before.positions) == (1, False, positions)
            assert list(before.store("rows").all()) == [("a", 1)]
            assert app.store("rows")["a"] == 2
            with app.snapshot() as after:
                assert after.epoch > before.epoch
                assert sum(after.positions.values()) == sum(positions.values()) + 2
                assert set(positions) == {sf.TopicPartition("in", n) for n in range(3)}
        with pytest.raises(sf.ConfigError, match=r"this snapshot is closed. Next: read within its `with`"):
            rows.get("a")
        # Each read of a handle is from one snapshot, including an iteration.
        entries = app.store("rows").all()
        assert next(entries) == ("a", 2)
        put(broker, ("b", 4, 40))
        read(app, broker)
        assert next(entries) == ("b", 3)


def test_read_your_writes(broker: EmbeddedBroker, make: Make) -> None:
    with make(table()) as app:
        until(lambda: app.state is State.RUNNING)
        for n in range(20):
            broker.produce_many("in", [(1, b"k", n.to_bytes(8, "big"), n)])
            assert app.store("rows", at_least={("in", 1): n + 1})["k"] == n
        with app.snapshot(at_least={sf.TopicPartition("in", 1): 20}) as at:
            assert at.store("rows")["k"] == 19
        with pytest.raises(sf.ConfigError, match=r"not committed within 30 ms. Next: wait longer with timeout="):
            app.store("rows", at_least={("in", 1): 99}, timeout=0.03).get("k")
        with pytest.raises(sf.ConfigError, match=r"names the partition out-0, which this application does not read"):
            app.store("rows", at_least={("out", 0): 1}).get("k")


def test_from_an_event_loop(broker: EmbeddedBroker, make: Make) -> None:
    async def ask(app: StoatFlow) -> int:
        moment = app.snapshot(at_least={("in", 2): 1})
        later = asyncio.get_running_loop().call_later(
            0.05, lambda: broker.produce_many("in", [(2, b"k", (7).to_bytes(8, "big"), 1)])
        )
        # The loop continues while it waits; otherwise nothing would write.
        async with moment as at:
            assert not later.cancelled()
            value: int = at.store("rows")["k"]
            return value

    with make(table()) as app:
        until(lambda: app.state is State.RUNNING)
        assert asyncio.run(ask(app)) == 7


def test_unsupported_queries_are_refused(broker: EmbeddedBroker, make: Make) -> None:
    class Nothing(sf.ContextualProcessor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None: ...
        def on_timer(self, timer: sf.Timer[str]) -> None: ...

    builder = sf.StreamsBuilder()
    builder.add_state_store(Stores.timers("alarms", key=str))
    stream = builder.stream("in", key=str, value=int)
    stream.process(Nothing, stores=["alarms"])
    stream.group_by_key().count(store=sf.Materialized("counts", key=str))
    app = make(builder.build())
    with pytest.raises(sf.ConfigError, match=r"there is no store named 'count'.*counts"):
        app.store("count")
    with pytest.raises(sf.ConfigError, match=r"'alarms' keeps what waits for a time"):
        app.store("alarms")
    counts = app.store("counts")
    with pytest.raises(sf.ConfigError, match=r"not running, so its state can't be read. Next: ask again when"):
        counts.get("a")
    put(broker, ("a", 1, 1), ("b", 1, 1))
    with app:
        read(app, broker)
        with pytest.raises(AttributeError, match=r"'counts' is a key-value store, without 'fetch'. Next: use all"):
            counts.fetch("a")
        with pytest.raises(AttributeError, match=r"no attribute 'nonsense'"):
            _ = counts.nonsense
        with pytest.raises(sf.SerdeError, match=r"counts"):
            counts.get(3)
        with counts.all() as entries:
            assert next(entries) == ("a", 1)
        with pytest.raises(sf.ConfigError, match=r"these entries are closed. Next: read them within their `with`"):
            next(entries)
        entries, moment = counts.all(), app.snapshot()
        assert moment.store("counts")["a"] == 1
    for ask in (lambda: counts.get("a"), lambda: next(entries), lambda: moment.store("counts")):
        with pytest.raises(sf.ConfigError, match=r"not running|has ended or restarted"):
            ask()
    moment.close()


def test_queries_while_stores_are_restored(broker: EmbeddedBroker, make: Make, tmp_path: Path) -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=int).group_by_key().count(store=sf.Materialized("counts", key=str))
    put(broker, ("a", 1, 1))
    with make(builder.build()) as app:
        read(app, broker)
    shutil.rmtree(tmp_path / "state")
    waits = HeldUp()
    given = {"application.id": "app", "state.dir": str(tmp_path / "state"), "ensure.explicit.naming": False}
    settings = sf.Settings(given, environ={})
    with StoatFlow(builder.build(), settings, broker=broker, on_restore=waits) as app:
        try:
            assert waits.began.wait(60)
            with pytest.raises(sf.ConfigError, match=r"are being restored, so they can't be read yet. Next: ask again"):
                app.store("counts").get("a")
        finally:
            waits.goes_on.set()
        read(app, broker)
        with app.snapshot() as at:
            assert (at.epoch, at.store("counts")["a"], sum(at.positions.values())) == (0, 1, 1)


def test_a_value_that_was_read_may_be_changed(broker: EmbeddedBroker, make: Make) -> None:
    class Keeps(sf.ContextualProcessor[str, int, str, int]):
        def process(self, record: Record[str, int]) -> None:
            self.context.state_store("lists").put(record.key, [record.value])

    builder = sf.StreamsBuilder()
    builder.add_state_store(Stores.key_value("lists", key=str, value=sf.Serdes.json(decode="dict")))
    builder.stream("in", key=str, value=int).process(Keeps, stores=["lists"])
    put(broker, ("a", 1, 1))
    with make(builder.build()) as app:
        read(app, broker)
        with app.snapshot() as at:
            lists = at.store("lists")
            lists["a"].append("more")
            assert lists["a"] == [1]


@pytest.mark.parametrize("in_memory", [False, True])
def test_stores_of_one_moment_always_agree(broker: EmbeddedBroker, make: Make, in_memory: bool) -> None:
    """Updates move amounts between two stores, on disk and in memory; both agree on the input that they include."""
    other = Stores.in_memory_key_value if in_memory else Stores.persistent_key_value

    class Moves(sf.ContextualProcessor[str, int, str, int]):
        def init(self, context: Any) -> None:
            super().init(context)
            self.given, self.taken = context.state_store("given"), context.state_store("taken")

        def process(self, record: Record[str, int]) -> None:
            amount = record.value or 0
            self.given.merge(f"g{amount % 3}", amount, lambda had, more: had + more)
            self.taken.merge(f"t{amount % 5}", -amount, lambda had, more: had + more)
            self.given.merge("records", 1, lambda had, more: had + more)

    builder = sf.StreamsBuilder()
    builder.add_state_store(Stores.persistent_key_value("given", key=str, value=int))
    builder.add_state_store(other("taken", key=str, value=int))
    builder.stream("in", key=str, value=int).process(Moves, stores=["given", "taken"])
    over = threading.Event()

    def feed() -> None:
        n = 0
        while not over.is_set():
            put(broker, *((f"k{at % 50}", at, at) for at in range(n, n + 50)))
            n += 50

    feeding = threading.Thread(target=feed)
    epochs: set[int] = set()
    questions = 0
    wrong: list[Any] = []

    def ask(app: StoatFlow) -> None:
        nonlocal questions
        # Some thousands, and until there were enough commits in between.
        while questions < 3_000 or len(epochs) < 40:
            questions += 1
            with app.snapshot() as at:
                given, taken = dict(at.store("given").all()), dict(at.store("taken").all())
                records = given.pop("records", 0)
                if sum(given.values()) + sum(taken.values()) != 0 or records != sum(at.positions.values()):
                    wrong.append((at.epoch, given, taken, records, at.positions))
                epochs.add(at.epoch)

    with make(builder.build(), **{"commit.interval.ms": 5}) as app:
        until(lambda: app.state is State.RUNNING)
        feeding.start()
        asking = [threading.Thread(target=ask, args=[app]) for _ in range(4)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
        over.set()
        feeding.join()
    assert wrong == []


def test_waiting_for_input_makes_it_visible_in_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker has a commit a moment before the state: caught up means both."""
    monkeypatch.setenv("STOATFLOW_FAILPOINTS", "commit.during-apply=sleep:700")
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).group_by_key().count(store="counts")
    with EmbeddedBroker(tmp_path / "broker") as broker:
        broker.create_topic("in", 1)
        broker.produce("in", b"a", b"x")
        config = sf.Settings({"application.id": "app", "state.dir": str(tmp_path / "state")}, environ={})
        with StoatFlow(builder.build(), config, broker=broker) as app:
            app.wait_until(caught_up=True)
            assert app.store("counts").get("a") == 1
            assert app.lag() == 0
