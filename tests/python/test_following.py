"""Following stores: `store.follow()`, with threads and event loops."""

from __future__ import annotations

import asyncio
import random
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from committed import HeldUp, Make, read
from concurrency import until
from stoatflow import ChangeBatch, EmbeddedBroker, State, StoatFlow, ValueAndTimestamp, Window


def put(broker: EmbeddedBroker, *records: tuple[str, int | None, int]) -> None:
    """Records of key, value (`None` deletes) and timestamp."""
    encoded = (
        (key, None if value is None else value.to_bytes(8, "big", signed=True), at) for key, value, at in records
    )
    broker.produce_many("in", ((None, key.encode(), value, at) for key, value, at in encoded))


def table() -> sf.Topology:
    builder = sf.StreamsBuilder()
    builder.table("in", key=str, value=int, store=sf.Materialized("rows", key=str, value=int))
    return builder.build()


def take(batches: Iterable[ChangeBatch[Any, Any]], copy: dict[Any, Any]) -> None:
    """Keep a copy of the followed store."""
    for batch in batches:
        for key, value in batch.rows:
            if value is None:
                copy.pop(key, None)
            else:
                copy[key] = value


def up_to(changes: sf.Changes[Any, Any], offsets: int) -> dict[Any, Any]:
    """Read until this many records are included."""
    copy: dict[Any, Any] = {}
    for batch in changes:
        take([batch], copy)
        if batch.complete and sum(batch.positions.values()) >= offsets:
            break
    return copy


@pytest.mark.parametrize("backend", ["rocksDB", "in_memory"])
def test_rows_then_changes(broker: EmbeddedBroker, make: Make, backend: str) -> None:
    put(broker, ("a", 1, 10), ("b", 2, 20))
    with make(table(), **{"default.dsl.store": backend}) as app:
        read(app, broker)
        with app.store("rows").follow() as changes, app.store("rows", timestamps=True).follow(snapshot=False) as timed:
            first = next(changes)
            assert (first.rows, first.snapshot, first.complete) == ([("a", 1), ("b", 2)], True, True)
            with app.snapshot() as at:
                assert (first.epoch, first.positions) == (at.epoch, at.positions)
            put(broker, ("a", None, 30))
            second = next(changes)
            assert (second.rows, second.snapshot, second.complete) == ([("a", None)], False, True)
            assert second.epoch > first.epoch
            assert sum(second.positions.values()) == 3
            put(broker, ("a", 3, 40), ("c", 4, 50))
            assert up_to(changes, 5) == {"a": 3, "c": 4}
            assert up_to(timed, 5) == {"a": ValueAndTimestamp(3, 40), "c": ValueAndTimestamp(4, 50)}
            assert changes.poll("20ms") is None
            put(broker, ("d", 5, 60))
            fourth = changes.poll("60s")
            assert fourth is not None
            assert fourth.rows == [("d", 5)]
        with pytest.raises(StopIteration):
            next(changes)


def test_windows_and_sessions(broker: EmbeddedBroker, make: Make) -> None:
    builder = sf.StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    by_time = grouped.windowed_by(sf.TimeWindows.of_size_with_no_grace("10ms"))
    by_time.count(store=sf.Materialized("windows", key=str, retention="1h"))
    by_gap = grouped.windowed_by(sf.SessionWindows.of_inactivity_gap_with_no_grace("5ms"))
    by_gap.count(store=sf.Materialized("sessions", key=str, retention="1h"))
    grouped.reduce(lambda _old, new: new, store=sf.Materialized("versions", key=str, value=int, history="1h"))
    put(broker, ("a", 1, 3))
    with make(builder.build()) as app:
        read(app, broker)
        with app.store("windows").follow() as windows, app.store("sessions").follow() as sessions:
            (first,) = next(windows).rows
            assert first == (sf.Windowed("a", Window(0, 10)), 1)
            assert next(sessions).rows == [(sf.Windowed("a", Window(3, 3)), 1)]
            put(broker, ("a", 2, 6))
            assert next(windows).rows == [(first[0], 2)]
            # The old session is gone, and another one is there.
            assert dict(next(sessions).rows) == {
                sf.Windowed("a", Window(3, 3)): None,
                sf.Windowed("a", Window(3, 6)): 2,
            }
        with pytest.raises(AttributeError, match=r"is a versioned store, without 'follow'. Next: use get, history"):
            app.store("versions").follow()


def test_some_of_the_rows(broker: EmbeddedBroker, make: Make) -> None:
    put(broker, ("a1", 1, 1), ("a2", -2, 1), ("b1", 3, 1))
    with make(table()) as app:
        read(app, broker)
        rows = app.store("rows")
        with (
            rows.follow(prefix="a") as of_a,
            rows.follow(lo="a2", hi="b") as between,
            rows.follow(sf.value > 0) as many,
        ):
            assert next(of_a).rows == [("a1", 1), ("a2", -2)]
            assert next(between).rows == [("a2", -2)]
            assert next(many).rows == [("a1", 1), ("b1", 3)]
            put(broker, ("a1", -1, 2))
            assert next(many).rows == [("a1", None)]
            put(broker, ("a1", None, 3), ("a2", None, 3))
            read(app, broker)
            put(broker, ("b1", 4, 4))
            assert next(many).rows == [("b1", 4)], "of rows that did not meet it, nothing is told"
            assert up_to(of_a, 6) == {}
            assert next(between).rows == [("a2", None)]


def test_following_ends_with_the_application(broker: EmbeddedBroker, make: Make) -> None:
    copy: dict[str, int] = {}
    with make(table()) as app:
        read(app, broker)
        changes = app.store("rows").follow()
        assert next(changes).rows == []
        thread = threading.Thread(target=take, args=[changes, copy])
        thread.start()
        put(broker, *((f"k{n}", n, n) for n in range(50)))
        read(app, broker)
    thread.join()
    assert copy == {f"k{n}": n for n in range(50)}
    with pytest.raises(sf.ConfigError, match=r"is not running"):
        next(app.store("rows").follow())


def test_another_thread_may_close_it(broker: EmbeddedBroker, make: Make) -> None:
    with make(table()) as app:
        read(app, broker)
        with app.store("rows").follow() as changes:
            assert next(changes).rows == []
            thread = threading.Thread(target=lambda: list(changes))
            thread.start()
            thread.join(0.05)
            assert thread.is_alive()
        thread.join()
        put(broker, ("a", 1, 1))
        read(app, broker)
        assert list(changes) == []
        closed = app.store("rows").follow()
        closed.close()
        assert list(closed) == []


def test_a_reader_that_falls_behind(broker: EmbeddedBroker, make: Make) -> None:
    with make(table()) as app:
        read(app, broker)
        with app.store("rows").follow(buffer_bytes=100) as slow:
            assert next(slow).snapshot
            for n in range(5):
                put(broker, ("k", n, n))
                read(app, broker)
            for _ in range(2):
                with pytest.raises(sf.ChangesLostError, match=r"fell behind.*raise buffer_bytes") as raised:
                    list(slow)
            assert raised.value.coordinates["store"] == "rows"
        with app.store("rows").follow() as again:
            assert next(again).rows == [("k", 4)]


def test_from_an_event_loop(broker: EmbeddedBroker, make: Make) -> None:
    async def follow(app: StoatFlow) -> None:
        copy: dict[str, int] = {}
        async with app.store("rows").follow() as changes:
            first = await anext(changes)
            assert (first.rows, first.snapshot) == ([("a", 1)], True)
            reached = given_up = 0
            for n in range(20):
                put(broker, ("a", n, n), (f"k{n}", n, n))
                try:
                    batch = await asyncio.wait_for(anext(changes), 0.0001 * (n % 4))
                except TimeoutError:  # nothing is lost by it
                    given_up += 1
                else:
                    take([batch], copy)
                    reached = sum(batch.positions.values())
            while reached < 41:
                batch = await anext(changes)
                take([batch], copy)
                reached = sum(batch.positions.values())
            assert given_up >= 5
            assert copy == {"a": 19, **{f"k{n}": n for n in range(20)}}
            waits = asyncio.ensure_future(anext(changes))
            await asyncio.sleep(0.05)
            with pytest.raises(sf.ConfigError, match=r"by another task already. Next: read them in one task"):
                await anext(changes)
            changes.close()
            with pytest.raises(StopAsyncIteration):
                await waits

    put(broker, ("a", 1, 1))
    with make(table(), **{"commit.interval.ms": 5}) as app:
        read(app, broker)
        asyncio.run(follow(app))


def test_many_loops_wait_until_the_end(broker: EmbeddedBroker, make: Make) -> None:
    """Waiting takes no thread of a pool: more readers wait here than a pool has threads."""

    async def follow(app: StoatFlow, copy: dict[str, int]) -> None:
        async for batch in app.store("rows").follow():
            take([batch], copy)

    async def all_of_them(app: StoatFlow) -> list[dict[str, int]]:
        copies: list[dict[str, int]] = [{} for _ in range(40)]
        tasks = [asyncio.ensure_future(follow(app, copy)) for copy in copies]
        await asyncio.sleep(0.1)
        put(broker, ("a", 1, 1))
        await asyncio.to_thread(until, lambda: all(copies))
        await asyncio.to_thread(app.close)
        await asyncio.gather(*tasks)
        return copies

    with make(table()) as app:
        read(app, broker)
        assert asyncio.run(all_of_them(app)) == [{"a": 1}] * 40


def keep(app: sf.StoatFlow, name: str, cache: dict[Any, Any]) -> None:
    """Follow a store as in docs/guide/queries.md."""
    while True:
        fresh: dict[Any, Any] = {}
        try:
            for batch in app.store(name).follow():
                take([batch], fresh if batch.snapshot else cache)
                if batch.snapshot and batch.complete:
                    cache.clear()
                    cache.update(fresh)
        except sf.ChangesLostError:
            app.wait_until("RUNNING")
        else:
            return


def test_a_restart_loses_buffered_changes(broker: EmbeddedBroker, make: Make) -> None:
    fails = [True]

    def once(value: int) -> int:
        if value == 13 and fails:
            fails.clear()
            raise OSError("away")
        return value

    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=int).map_values(once)
    stream.to_table(store=sf.Materialized("rows", key=str, value=int))
    app = make(builder.build())
    app.set_uncaught_exception_handler(lambda error: "REPLACE_THREAD")
    with app:
        read(app, broker)
        cache = {"before": 0}
        keeper = threading.Thread(target=keep, args=[app, "rows", cache])
        keeper.start()
        with app.store("rows").follow() as changes, app.store("rows").follow() as other:
            put(broker, ("a", 1, 1))
            assert up_to(changes, 1) == {"a": 1}
            put(broker, ("b", 13, 2))
            copy: dict[str, int] = {}
            with pytest.raises(sf.ChangesLostError, match=r"began again from its last commit.*once its state is RUNN"):
                take(other, copy)
            assert copy == {"a": 1}, "what was committed before comes before the error"
        app.wait_until(caught_up=True)
        with app.store("rows").follow() as again:
            assert dict(next(again).rows) == {"a": 1, "b": 13}
        until(lambda: cache == {"a": 1, "b": 13})
        put(broker, ("c", 3, 3))
        app.wait_until(caught_up=True)
    keeper.join()
    assert cache == {"a": 1, "b": 13, "c": 3}


def test_stores_that_cannot_be_followed(broker: EmbeddedBroker, make: Make, tmp_path: Path) -> None:
    put(broker, ("a", 1, 1))
    app = make(table())
    with pytest.raises(sf.ConfigError, match=r"there is no store named 'row'.*rows"):
        app.store("row")
    with pytest.raises(sf.ConfigError, match=r"not running, so its state can't be read. Next: ask again when"):
        next(app.store("rows").follow())
    with app:
        read(app, broker)
        rows = app.store("rows")
        wrong: Any
        for wrong in (0, True, "1MiB"):
            with pytest.raises(sf.ConfigError, match=r"is no number of bytes"):
                rows.follow(buffer_bytes=wrong)
        with pytest.raises(sf.ConfigError, match=r"prefix= stands beside lo= or hi="):
            rows.follow(prefix="a", lo="a")
        with pytest.raises(sf.SerdeError, match=r"rows"):
            next(rows.follow(lo=3))
        with (
            app.snapshot() as at,
            pytest.raises(sf.ConfigError, match=r"stands still. Next: follow app.store\('rows'\)"),
        ):
            at.store("rows").follow()
        late = app.store("rows", at_least={("in", 0): 99}, timeout=0.03).follow()
        with pytest.raises(sf.ConfigError, match=r"not committed within 30 ms"):
            next(late)
    shutil.rmtree(tmp_path / "state")
    waits = HeldUp()
    given = {"application.id": "app", "state.dir": str(tmp_path / "state"), "ensure.explicit.naming": False}
    with StoatFlow(table(), sf.Settings(given, environ={}), broker=broker, on_restore=waits) as app:
        try:
            assert waits.began.wait(60)
            with pytest.raises(sf.ConfigError, match=r"are being restored, so they can't be read yet. Next: ask again"):
                next(app.store("rows").follow())
        finally:
            waits.goes_on.set()


@pytest.mark.parametrize("backend", ["rocksDB", "in_memory"])
def test_copies_of_changing_readers_equal_the_store(broker: EmbeddedBroker, make: Make, backend: str) -> None:
    """Whenever they begin, with a condition or without, on a thread or a loop: their copy equals the store."""
    count, dice = 3_000, random.Random(7)  # noqa: S311  # to be repeated
    records = [(f"k{dice.randrange(40)}", dice.choice([None, *range(-3, 4)]), n) for n in range(count)]
    copies: list[tuple[bool, dict[str, int]]] = []
    begun: list[int] = []

    def follow(app: StoatFlow, wait: float, positive: bool) -> None:
        threading.Event().wait(wait)
        copy: dict[str, int] = {}
        with app.store("rows").follow(sf.value > 0 if positive else None) as changes:
            begun.append(1)
            take(changes, copy)
        copies.append((positive, copy))

    async def follow_too(app: StoatFlow, wait: float) -> None:
        await asyncio.sleep(wait)
        copy: dict[str, int] = {}
        async with app.store("rows").follow() as changes:
            begun.append(1)
            async for batch in changes:
                take([batch], copy)
        copies.append((False, copy))

    settings: dict[str, Any] = {"commit.interval.ms": 3, "commit.min.interval.ms": 1, "default.dsl.store": backend}
    with make(table(), **settings) as app:
        until(lambda: app.state is State.RUNNING)
        threads = [threading.Thread(target=follow, args=[app, n / 20, n % 2 == 0]) for n in range(6)]
        threads += [
            threading.Thread(target=asyncio.run, args=[follow_too(app, n / 15)])  # each on its own loop
            for n in range(3)
        ]
        for thread in threads:
            thread.start()
        for at in range(0, count, 100):
            put(broker, *records[at : at + 100])
            threading.Event().wait(0.005)
        until(lambda: len(begun) == len(threads))
        read(app, broker)
        stored = dict(app.store("rows").all())
    for thread in threads:
        thread.join()
    assert len(copies) == len(threads)
    for positive, copy in copies:
        assert copy == {key: value for key, value in stored.items() if not positive or value > 0}
