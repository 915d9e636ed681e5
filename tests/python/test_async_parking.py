"""Async functions on the embedded broker: calls that outlive commits and runs, ends that do not wait, replay."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import stoatflow as sf
from stoatflow.embedded import EmbeddedBroker

APP = """
import asyncio, os, sys
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
print("running", flush=True)
if sys.argv[4] == "wait":
    sys.stdin.readline()
    sys.exit(0 if app.close("20s") else 1)
app.wait()
"""


def fill(broker: EmbeddedBroker, records: list[tuple[str, str]]) -> None:
    for key, value in records:
        broker.produce("in", key.encode(), value.encode())


def read(broker: EmbeddedBroker) -> list[tuple[str, str]]:
    return [((r.key or b"").decode(), (r.value or b"").decode()) for r in broker.read("out")]


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.02)


def make(broker: EmbeddedBroker, fn: Any, tmp_path: Path, **settings: Any) -> sf.StoatFlow:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).map_values(fn, name="slow").to("out", key=str, value=str)
    return sf.StoatFlow(
        builder.build(), application_id="parked", broker=broker, state_dir=str(tmp_path / "state"), **settings
    )


def test_calls_that_outlive_commits_and_runs_are_parked_and_given_once(tmp_path: Path) -> None:
    """Runs are stopped again and again while calls are under way; each record comes out once, in its key's order."""
    begun: list[str] = []

    def slow(seconds: float) -> Any:
        async def work(value: str) -> str:
            begun.append(value)
            await asyncio.sleep(seconds)
            return value

        return sf.awaiting(work, timeout=None, park_after="10ms", concurrency=50)

    with EmbeddedBroker(str(tmp_path / "broker")) as broker:
        broker.create_topic("in", 2)
        broker.create_topic("out", 1)
        records = [(f"k{n % 7}", f"v{n}") for n in range(40)]
        fill(broker, records)
        for calls, lanes in ((7, 1), (14, 4)):  # the first of each key, in both runs
            with make(broker, slow(30), tmp_path, lanes_count=lanes) as app:
                wait_for(lambda: len(begun) == calls and app.lag() == 0)  # noqa: B023  # called here
        assert len(begun) == 14
        assert read(broker) == []
        fill(broker, [("k3", "last")])
        with make(broker, slow(0.005), tmp_path, lanes_count=3) as app:
            wait_for(lambda: len(read(broker)) >= 41)
        given = read(broker)
    assert sorted(given) == sorted([*records, ("k3", "last")])
    for key in {key for key, _ in records}:
        wanted = [value for k, value in [*records, ("k3", "last")] if k == key]
        assert [value for k, value in given if k == key] == wanted


def test_an_idle_engine_gives_what_is_answered_after_its_epoch(tmp_path: Path) -> None:
    async def slow(value: str) -> str:
        await asyncio.sleep(0.4)
        return value

    with EmbeddedBroker(str(tmp_path / "broker")) as broker:
        broker.create_topic("in", 1)
        broker.create_topic("out", 1)
        with make(broker, sf.awaiting(slow, park_after="0ms"), tmp_path) as app:
            fill(broker, [("k", "v")])
            wait_for(lambda: app.lag() == 0)
            began = time.monotonic()
            wait_for(lambda: read(broker) == [("k", "v")])
            assert time.monotonic() - began < 2


def test_a_handler_that_retries_with_a_pause_keeps_no_other_record_waiting(tmp_path: Path) -> None:
    """Each of them waits a second, all at the same time, and the lane goes on meanwhile."""
    failed: set[str] = set()

    async def flaky(value: str) -> str:
        if value.startswith("bad") and value not in failed:
            failed.add(value)
            raise ConnectionError("away")
        return value

    with EmbeddedBroker(str(tmp_path / "broker")) as broker:
        broker.create_topic("in", 1)
        broker.create_topic("out", 1)
        fill(broker, [(f"k{n}", f"bad{n}") for n in range(20)])
        handler = sf.Retry(times=1, backoff="1s", then=sf.log_and_fail())
        with make(broker, flaky, tmp_path, lanes_count=1, on_processing_error=handler) as app:
            wait_for(lambda: len(failed) == 20)
            began = time.monotonic()
            fill(broker, [("k", "good"), ("k0", "behind")])
            wait_for(lambda: len(read(broker)) == 22)
            assert time.monotonic() - began < 4
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

    with EmbeddedBroker(str(tmp_path / "broker")) as broker:
        broker.create_topic("in", 1)
        broker.create_topic("out", 1)
        fill(broker, [(f"k{n}", f"v{n}") for n in range(4)])
        fn = sf.awaiting(slow, concurrency=2)
        with make(broker, fn, tmp_path, on_processing_error=sf.log_and_continue()) as app:
            wait_for(lambda: len(read(broker)) == 3)
            (function,) = app.metrics()["functions"]
    assert (function["node"], function["op"], function["calls"]) == ("slow", "map_values", 4)
    # Two at a time: the others waited for their turn.
    assert 0.2 <= function["seconds"] < 5
    assert 0.08 <= function["wait_seconds"] < 5
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

    with EmbeddedBroker(str(tmp_path / "broker")) as broker:
        broker.create_topic("in", 1)
        broker.create_topic("out", 1)
        fill(broker, [("k", "v")])
        app = make(broker, sf.awaiting(hangs, timeout=None), tmp_path)
        app.start()
        wait_for(lambda: app.lag() == 0)
        assert app.close("10s")
    assert cancelled.wait(5)
    assert not [t for t in threading.enumerate() if t.name == "stoatflow-event-loop"]


def test_neither_a_commit_nor_a_close_waits_for_room_among_slow_calls(tmp_path: Path) -> None:
    """What finds no room is parked, and nothing more is read then: what is parked does not grow."""
    begun: list[str] = []

    def slow(seconds: float) -> Any:
        async def work(value: str) -> str:
            begun.append(value)
            await asyncio.sleep(seconds)
            return value

        return sf.awaiting(work, timeout=None, park_after="10ms", concurrency=1)

    with EmbeddedBroker(str(tmp_path / "broker")) as broker:
        broker.create_topic("in", 1)
        broker.create_topic("out", 1)
        first = [(f"k{n}", f"v{n}") for n in range(20)]
        fill(broker, first)
        with make(broker, slow(60), tmp_path, lanes_count=2) as app:
            wait_for(lambda: app.lag() == 0, 10)
            second = [(f"k{n}", f"w{n}") for n in range(20)]
            fill(broker, second)
            time.sleep(2.5)
            assert app.lag() == 20
            # Before it closes: lanes end one by one, and what the first gives up may be the turn of another's call.
            assert len(begun) == 1
            asked = time.monotonic()
            assert app.close("10s")
            assert time.monotonic() - asked < 5
        with make(broker, slow(0.001), tmp_path) as app:
            wait_for(lambda: len(read(broker)) >= 40)
        given = read(broker)
    assert sorted(given) == sorted([*first, *second])
    for key, value in first:
        assert given.index((key, value)) < given.index((key, value.replace("v", "w")))


def test_a_killed_process_begins_its_parked_calls_again(tmp_path: Path) -> None:
    path = str(tmp_path / "broker")
    with EmbeddedBroker(path) as broker:
        broker.create_topic("in", 1)
        broker.create_topic("out", 1)
        fill(broker, [(f"k{n}", "v") for n in range(20)])
    command = [sys.executable, "-c", APP, path]
    with subprocess.Popen([*command, "30", "4", "run"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        time.sleep(2.0)
        process.kill()
    with subprocess.Popen(
        [*command, "0.01", "2", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        time.sleep(2.0)
        process.communicate("\n")
    assert process.returncode == 0
    with EmbeddedBroker(path) as broker:
        assert sorted(read(broker)) == sorted((f"k{n}", "v") for n in range(20))
