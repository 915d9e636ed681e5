"""Async functions on the embedded broker: calls that outlive commits and runs, stops without waiting, replay."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.embedded import EmbeddedBroker

APP = """
import asyncio, sys, time
import stoatflow as sf

path, seconds = sys.argv[1], float(sys.argv[2])

async def slow(value):
    await asyncio.sleep(seconds)
    return value

builder = sf.StreamsBuilder()
how = sf.awaiting(slow, concurrency=500, timeout=None, park_after="20ms")
builder.stream("in", key=str, value=str).map_values(how, name="slow").to("out", key=str, value=str)
app = sf.StoatFlow(builder.build(), application_id="parked", bootstrap_servers="embedded:" + path,
                   lanes_count=int(sys.argv[3]), state_dir=path + "-state")
app.start()

def until(condition):
    latest = time.monotonic() + 60
    while not condition():
        if time.monotonic() > latest:
            sys.exit("it took too long")
        time.sleep(0.01)

def calls():
    (function,) = [f for f in app.metrics()["functions"] if f.get("async")] or [{"calls": 0, "async": {"parked": 0}}]
    return function["calls"], function["async"]["parked"]

if sys.argv[4] == "park":
    until(lambda: app.lag() == 0 and calls() == (0, 20))
    print("parked", flush=True)
    app.wait()
until(lambda: calls() == (20, 0))
sys.exit(0 if app.close("60s") else 1)
"""


def fill(broker: EmbeddedBroker, records: list[tuple[str, str]]) -> None:
    for key, value in records:
        broker.produce("in", key.encode(), value.encode())


def read(broker: EmbeddedBroker) -> list[tuple[str, str]]:
    return [((r.key or b"").decode(), (r.value or b"").decode()) for r in broker.read("out")]


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.02)


def make(broker: EmbeddedBroker, fn: Any, tmp_path: Path, **settings: Any) -> sf.StoatFlow:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).map_values(fn, name="slow").to("out", key=str, value=str)
    return app_of(builder, broker, tmp_path, **settings)


def app_of(builder: sf.StreamsBuilder, broker: EmbeddedBroker, tmp_path: Path, **settings: Any) -> sf.StoatFlow:
    return sf.StoatFlow(
        builder.build(), application_id="parked", broker=broker, state_dir=str(tmp_path / "state"), **settings
    )


@contextmanager
def broker_at(path: Path, partitions: int = 1) -> Iterator[EmbeddedBroker]:
    """A broker with the topics of `make`; the output has one partition."""
    with EmbeddedBroker(str(path)) as broker:
        broker.create_topic("in", partitions)
        broker.create_topic("out", 1)
        yield broker


def taking(seconds: float, begun: list[str], concurrency: int) -> Any:
    """A function whose calls take this long, and may outlive their epoch; `begun` gets the value of each call."""

    async def work(value: str) -> str:
        begun.append(value)
        await asyncio.sleep(seconds)
        return value

    return sf.awaiting(work, timeout=None, park_after="10ms", concurrency=concurrency)


def test_calls_that_outlive_commits_and_runs_are_parked_and_emitted_once(tmp_path: Path) -> None:
    """Runs are stopped again and again during calls; each record's result appears once, in order of its key."""
    begun: list[str] = []

    with broker_at(tmp_path / "broker", 2) as broker:
        records = [(f"k{n % 7}", f"v{n}") for n in range(40)]
        fill(broker, records)
        for calls, lanes in ((7, 1), (14, 4)):  # the first of each key, in both runs
            with make(broker, taking(600, begun, 50), tmp_path, lanes_count=lanes) as app:
                wait_for(lambda: len(begun) == calls and app.lag() == 0)  # noqa: B023  # called here
        assert len(begun) == 14
        assert read(broker) == []
        fill(broker, [("k3", "last")])
        with make(broker, taking(0.005, begun, 50), tmp_path, lanes_count=3) as app:
            wait_for(lambda: len(read(broker)) >= 41)
        given = read(broker)
    assert sorted(given) == sorted([*records, ("k3", "last")])
    for key in {key for key, _ in records}:
        wanted = [value for k, value in [*records, ("k3", "last")] if k == key]
        assert [value for k, value in given if k == key] == wanted


class Order:
    """A class of the user."""

    def __init__(self, total: int) -> None:
        self.total = total


class Orders(sf.Serde[Order]):
    def serialize(self, value: Order) -> bytes:
        return b"%d" % value.total

    def deserialize(self, data: bytes) -> Order:
        return Order(int(data))


def parsed(value: str) -> dict[str, int]:
    return {"total": int(value)}


def doubled_in_place(seen: list[Any], hold: float) -> Any:
    async def work(order: Any) -> Any:
        if isinstance(order, dict):
            seen.append((type(order), order["total"]))
            order["total"] *= 2
        else:
            seen.append((type(order), order.total))
            order.total *= 2
        await asyncio.sleep(hold)
        return order

    return sf.awaiting(work, timeout=None, park_after="0ms")


@pytest.mark.parametrize("kind", [Order, dict])
def test_a_repeated_call_gets_its_original_arguments(kind: type, tmp_path: Path) -> None:
    """A value that the call changes in place is parked in its original form; a dict stays a dict."""
    seen: list[Any] = []
    with EmbeddedBroker(str(tmp_path / "broker")) as broker:
        broker.create_topic("in", 1)
        broker.create_topic("out", 1)
        fill(broker, [("k", "100")])
        for hold in (600, 600, 0.01):
            builder = sf.StreamsBuilder()
            work = doubled_in_place(seen, hold)
            if kind is dict:
                made = builder.stream("in", key=str, value=str).map_values(parsed).map_values(work, name="work")
                made.map_values(lambda order: str(order["total"])).to("out", key=str, value=str)
            else:
                orders = builder.stream("in", key=str, value=Orders())
                orders.map_values(work, name="work").to("out", key=str, value=Orders())
            begun = len(seen)
            with app_of(builder, broker, tmp_path) as app:
                wait_for(lambda: len(seen) > begun and app.lag() == 0)  # noqa: B023  # called here
                if hold == 600:
                    wait_for(lambda: parked(app) == 1)
                else:
                    wait_for(lambda: bool(read(broker)))
        assert read(broker) == [("k", "200")]
    assert seen == [(kind, 100)] * 3


def parked(app: sf.StoatFlow) -> int:
    calls = [function["async"] for function in app.metrics()["functions"] if function.get("async")]
    return int(sum(counts["parked"] for counts in calls))


def test_a_schedule_stops_while_its_calls_have_no_room(tmp_path: Path) -> None:
    """Otherwise each tick would be parked, more and more of them."""
    hold = threading.Event()

    async def fetch(value: str) -> str:
        await asyncio.to_thread(hold.wait, 600)
        return value

    builder = sf.StreamsBuilder()
    ticks = builder.scheduled("tick", every="50ms")
    fan = ticks.flat_map(lambda _, at: [(f"k{n}-{at}", "x") for n in range(20)], name="fan")
    how = sf.awaiting(fetch, concurrency=1, timeout=None)
    fan.map_values(how, name="fetch").to("out", key=str, value=str)
    with EmbeddedBroker(str(tmp_path / "broker")) as broker:
        broker.create_topic("out", 1)
        started = time.monotonic()
        with app_of(builder, broker, tmp_path, lanes_count=1, ensure_explicit_naming=False) as app:

            def under_way() -> int:
                calls = [f["async"] for f in app.metrics()["functions"] if f.get("async")]
                return int(sum(counts["under_way"] for counts in calls))

            wait_for(lambda: parked(app) >= 20)
            at_first = under_way()
            # The calls of the ticks that were due by then: on a slow machine more than one.
            assert at_first <= 20 * (2 + (time.monotonic() - started) / 0.05)
            # Several seconds, in each of which a barrier would start the calls of a second of ticks.
            time.sleep(3.5)
            assert under_way() == at_first
            hold.set()
            wait_for(lambda: len(read(broker)) > 100)
            wanted = sorted({int(key.partition("-")[2]) for key, _ in read(broker)})
    assert [at - before for before, at in zip(wanted, wanted[1:])] == [50] * (len(wanted) - 1)  # noqa: RUF007, B905


def test_an_idle_engine_emits_results_that_arrive_after_their_epoch(tmp_path: Path) -> None:
    async def slow(value: str) -> str:
        await asyncio.sleep(0.4)
        return value

    with (
        broker_at(tmp_path / "broker") as broker,
        make(broker, sf.awaiting(slow, park_after="0ms"), tmp_path) as app,
    ):
        fill(broker, [("k", "v")])
        wait_for(lambda: app.lag() == 0)
        began = time.monotonic()
        wait_for(lambda: read(broker) == [("k", "v")])
        assert time.monotonic() - began < 45


def test_a_retry_with_a_pause_blocks_no_other_record(tmp_path: Path) -> None:
    """Each of them waits two seconds, all at the same time, while the lane continues."""
    failed: set[str] = set()
    good_is_out = threading.Event()

    async def flaky(value: str) -> str:
        if value.startswith("bad"):
            if value not in failed:
                failed.add(value)
                raise ConnectionError("away")
            # On a slow machine the pause may be over before the good one is written.
            while not good_is_out.is_set():  # noqa: ASYNC110  # another thread sets it
                await asyncio.sleep(0.02)
        return value

    with broker_at(tmp_path / "broker") as broker:
        fill(broker, [(f"k{n}", f"bad{n}") for n in range(20)])
        handler = sf.Retry(times=1, backoff="2s", then=sf.log_and_fail())
        with make(broker, flaky, tmp_path, lanes_count=1, on_processing_error=handler) as app:
            wait_for(lambda: len(failed) == 20)
            began = time.monotonic()
            fill(broker, [("k", "good"), ("k0", "behind")])
            wait_for(lambda: bool(read(broker)))
            good_is_out.set()
            wait_for(lambda: len(read(broker)) == 22)
            assert time.monotonic() - began < 35, "one after the other they take 40 s"
            assert app.error is None
        given = read(broker)
    assert given[0] == ("k", "good")
    assert given.index(("k0", "bad0")) < given.index(("k0", "behind"))


def test_its_calls_and_their_time_are_counted(tmp_path: Path) -> None:
    async def slow(value: str) -> str:
        await asyncio.sleep(0.05)
        if value == "v0":
            raise ValueError("counts too")
        return value

    with broker_at(tmp_path / "broker") as broker:
        fill(broker, [(f"k{n}", f"v{n}") for n in range(4)])
        fn = sf.awaiting(slow, concurrency=2)
        with make(broker, fn, tmp_path, on_processing_error=sf.log_and_continue()) as app:
            wait_for(lambda: len(read(broker)) == 3)
            (function,) = app.metrics()["functions"]
    assert (function["node"], function["op"], function["calls"]) == ("slow", "map_values", 4)
    # Two at a time: the others waited for their turn.
    assert 0.2 <= function["seconds"] < 100
    assert 0.08 <= function["wait_seconds"] < 100
    assert "slow" in function["function"]


def test_a_close_does_not_wait_for_calls_that_hang(tmp_path: Path) -> None:
    cancelled = threading.Event()

    async def hangs(value: str) -> str:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return value

    with broker_at(tmp_path / "broker") as broker:
        fill(broker, [("k", "v")])
        app = make(broker, sf.awaiting(hangs, timeout=None), tmp_path)
        app.start()
        wait_for(lambda: app.lag() == 0)
        assert app.close("60s")
    assert cancelled.wait(60)
    assert not [t for t in threading.enumerate() if t.name == "stoatflow-event-loop"]


def test_neither_commit_nor_close_waits_for_slow_calls(tmp_path: Path) -> None:
    """Calls without room are parked, and then nothing more is read, so the number of parked calls doesn't grow."""
    begun: list[str] = []

    with broker_at(tmp_path / "broker") as broker:
        first = [(f"k{n}", f"v{n}") for n in range(20)]
        fill(broker, first)
        with make(broker, taking(600, begun, 1), tmp_path, lanes_count=2) as app:
            wait_for(lambda: app.lag() == 0)
            second = [(f"k{n}", f"w{n}") for n in range(20)]
            fill(broker, second)
            time.sleep(2.5)
            assert app.lag() == 20
            # Before it closes: lanes end one by one, and a call that the first one cancels may free another
            # one's turn.
            assert len(begun) == 1
            asked = time.monotonic()
            # Less than a shutdown may take.
            assert app.close("28s")
            assert time.monotonic() - asked < 28
        with make(broker, taking(0.001, begun, 1), tmp_path) as app:
            wait_for(lambda: len(read(broker)) >= 40)
        given = read(broker)
    assert sorted(given) == sorted([*first, *second])
    for key, value in first:
        assert given.index((key, value)) < given.index((key, value.replace("v", "w")))


def test_a_killed_process_begins_its_parked_calls_again(tmp_path: Path) -> None:
    path = str(tmp_path / "broker")
    with broker_at(tmp_path / "broker") as broker:
        fill(broker, [(f"k{n}", "v") for n in range(20)])
    command = [sys.executable, "-c", APP, path]
    with subprocess.Popen([*command, "600", "4", "park"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "parked\n"
        process.kill()
    with EmbeddedBroker(path) as broker:
        assert read(broker) == []
    subprocess.run([*command, "0.01", "2", "end"], check=True, timeout=180)
    with EmbeddedBroker(path) as broker:
        assert sorted(read(broker)) == sorted((f"k{n}", "v") for n in range(20))
