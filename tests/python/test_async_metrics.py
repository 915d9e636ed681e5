"""Metrics of async calls at the admin port: in progress, parked, failed, timed out, retried. On a running engine."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import stoatflow as sf


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.01)


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310  # our own port
        return str(answer.read().decode())


def metrics(app: sf.StoatFlow, node: str) -> dict[str, float]:
    """The metrics of a node's async calls."""
    found = {}
    for line in get(f"{app.admin_url}metrics").splitlines():
        if line.startswith("stoatflow_async_calls_") and f'node="{node}"' in line:
            found[line.partition("{")[0].removeprefix("stoatflow_async_calls_")] = float(line.rpartition(" ")[2])
    return found


def test_calls_under_way_parked_retried_and_timed_out(tmp_path: Path) -> None:
    gate = asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []
    attempts: dict[str, int] = {}

    async def held(value: str) -> str:
        loops.append(asyncio.get_running_loop())
        await gate.wait()
        return value

    async def unsteady(value: str) -> str:
        attempts[value] = attempts.get(value, 0) + 1
        if attempts[value] == 1:
            raise ConnectionError
        if value == "slow":
            await asyncio.sleep(60)
        return value

    async def joined(left: str, right: str) -> str:
        attempts["join"] = attempts.get("join", 0) + 1
        if attempts["join"] == 1:
            raise ConnectionError
        return left + right

    patient = sf.awaiting(held, park_after="1ms")
    once_more = sf.Backoff(attempts=2, first="1ms")
    careful = sf.awaiting(unsteady, timeout="50ms", retry=once_more, on_timeout=lambda value: "late")
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).map_values(patient, name="held").to("out", value=str)
    builder.stream("more", key=str, value=str).map_values(careful, name="unsteady").to("out", value=str)
    table = builder.table("table", key=str, value=str, store="table")
    left = builder.stream("left", key=str, value=str)
    left.join(table, sf.awaiting(joined, retry=once_more), name="joined").to("out", value=str)
    with sf.EmbeddedBroker(tmp_path / "broker") as broker:
        for topic in ("in", "more", "table", "left", "out"):
            broker.create_topic(topic, 1)
        broker.produce_many("in", [(None, b"k%d" % n, b"v", n) for n in range(3)])
        broker.produce_many("more", [(None, b"a", b"fast", 1), (None, b"b", b"slow", 1)])
        broker.produce_many("table", [(None, b"k", b"t", 1)])
        config = {"application.id": "app", "state.dir": str(tmp_path / "state"), "commit.interval.ms": 20}
        with sf.StoatFlow(builder.build(), config, broker=broker) as app:
            until(lambda: metrics(app, "held").get("parked") == 3, "all three are parked")
            assert metrics(app, "held") == {
                "under_way": 3, "parked": 3, "failed_total": 0, "timed_out_total": 0, "retried_total": 0,
            }  # fmt: skip
            until(lambda: metrics(app, "unsteady").get("timed_out_total") == 1, "the slow one has timed out")
            # Its result is emitted, and its row deleted, in the epoch after its arrival.
            until(lambda: metrics(app, "unsteady")["parked"] == 0, "the others are given")
            # Both fail once; the slow one then times out, and gets another result.
            assert metrics(app, "unsteady") == {
                "under_way": 0, "parked": 0, "failed_total": 0, "timed_out_total": 1, "retried_total": 2,
            }  # fmt: skip
            broker.produce_many("left", [(None, b"k", b"l", 2)])
            until(lambda: metrics(app, "joined").get("retried_total") == 1, "the joiner was called again")
            until(lambda: metrics(app, "joined")["under_way"] == 0, "it has ended")
            loops[0].call_soon_threadsafe(gate.set)
            until(lambda: metrics(app, "held")["parked"] == 0, "what was parked is given")
            functions: list[dict[str, Any]] = json.loads(get(f"{app.admin_url}topology"))["functions"]
            (reported,) = [function for function in functions if function["node"] == "held"]
            assert reported["calls"] == 3
            assert reported["seconds"] > 0
            assert reported["async"] == {"under_way": 0, "parked": 0, "failed": 0, "timed_out": 0, "retried": 0}
            assert functions == app.metrics()["functions"]
            assert "functions" in get(app.admin_url or "")
    assert app.error is None


def test_the_key_that_blocks_others_is_named(tmp_path: Path) -> None:
    gate = asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def held(value: str) -> str:
        loops.append(asyncio.get_running_loop())
        if value == "slow":
            await gate.wait()
        return value

    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.map_values(sf.awaiting(held, park_after="1ms"), name="held").to("out", value=str)
    with sf.EmbeddedBroker(tmp_path / "broker") as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic, 1)
        given = [(b"ann", b"slow"), (b"ann", b"next"), (b"ann", b"last"), (b"bob", b"fast")]
        broker.produce_many("in", [(None, key, value, 1) for key, value in given])
        config = {"application.id": "app", "state.dir": str(tmp_path / "state"), "commit.interval.ms": 20}
        with sf.StoatFlow(builder.build(), config, broker=broker) as app:

            def oldest() -> dict[str, Any]:
                (function,) = app.metrics()["functions"]
                return dict(function.get("oldest_call", {}))

            until(lambda: oldest().get("for_ms", 0) > 50, "the slow one runs")
            # It may run before its lane has reached the records behind it.
            until(lambda: (oldest()["key"], oldest()["behind"]) == ("ann", 2), "two wait behind it")
            line = next(x for x in get(f"{app.admin_url}metrics").splitlines() if "async_oldest_call_seconds{" in x)
            assert float(line.rpartition(" ")[2]) >= 0.05
            loops[0].call_soon_threadsafe(gate.set)
            until(lambda: oldest() == {}, "all have ended")


def test_a_call_that_fails_for_good(tmp_path: Path) -> None:
    async def broken(value: str) -> str:
        raise ConnectionError

    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.map_values(broken, name="broken", on_error="log_and_continue").to("out", value=str)
    with sf.EmbeddedBroker(tmp_path / "broker") as broker:
        broker.create_topic("in", 1)
        broker.create_topic("out", 1)
        broker.produce_many("in", [(None, b"k", b"v", 1)])
        config = {"application.id": "app", "state.dir": str(tmp_path / "state")}
        with sf.StoatFlow(builder.build(), config, broker=broker) as app:
            until(lambda: metrics(app, "broken").get("failed_total") == 1, "it has failed")
            until(lambda: metrics(app, "broken")["under_way"] == 0, "and has ended")


def test_calls_that_a_lane_waits_for(tmp_path: Path) -> None:
    gate = asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def held(value: str) -> str:
        loops.append(asyncio.get_running_loop())
        await gate.wait()
        if value == "bad":
            raise ConnectionError
        return value

    builder = sf.StreamsBuilder()
    table = builder.table("in", key=str, value=str, store="table")
    table.map_values(held, name="held", on_error="log_and_continue").to_stream().to("out", value=str)
    with sf.EmbeddedBroker(tmp_path / "broker") as broker:
        broker.create_topic("in", 1)
        broker.create_topic("out", 1)
        broker.produce_many("in", [(None, b"a", b"good", 1), (None, b"b", b"bad", 1), (None, b"c", b"good", 1)])
        config = {"application.id": "app", "state.dir": str(tmp_path / "state"), "lanes.count": 1}
        with sf.StoatFlow(builder.build(), config, broker=broker) as app:
            # Its lane waits for the first call, and starts the others after it.
            until(lambda: metrics(app, "held").get("under_way") == 1, "the first one is under way")
            assert metrics(app, "held")["parked"] == 0
            until(lambda: bool(loops), "it has begun")
            loops[0].call_soon_threadsafe(gate.set)
            until(lambda: metrics(app, "held")["failed_total"] == 1, "the bad one has failed")
            until(lambda: app.metrics()["functions"][0]["calls"] == 3, "all have ended")
            assert metrics(app, "held")["under_way"] == 0
