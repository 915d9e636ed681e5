"""The event loop: tasks beside calls, resources that have tasks of their own, an end that nobody asked for."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from typing import Any
from unittest.mock import Mock

import pytest

import stoatflow as sf
from stoatflow._runtime.event_loop import EventLoop
from stoatflow.asynchronous import awaiting
from stoatflow.testing import TopologyTestDriver

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def what_ended_the_loop_is_collected() -> Iterator[None]:
    """asyncio logs a task's exception when the task is collected: here, not within a parse of another test.

    CPython 3.11 raises SystemError there ("AST constructor recursion depth mismatch"), as the traceback is parsed too.
    """
    yield
    gc.collect()


def driver_of(topology: sf.Topology, **how: Any) -> TopologyTestDriver:
    return TopologyTestDriver(topology, {"ensure.explicit.naming": False}, **how)


async def audit(value: str) -> None:
    if value == "bad":
        sys.exit(3)


async def audited(value: str) -> str:
    """Begin a task of its own, which may end the loop."""
    task = asyncio.create_task(audit(value))
    await asyncio.sleep(0.01)
    return f"{value}{task.done()}"


async def cancels_all(value: str) -> str:
    if value == "bad":
        for task in asyncio.all_tasks():
            task.cancel()
        await asyncio.sleep(0)
    return f"{value}True"


def of_a_stream(builder: sf.StreamsBuilder, fn: Any) -> sf.KStream[str, str]:
    return builder.stream("in", key=str, value=str).map_values(fn, name="work")


def of_a_table(builder: sf.StreamsBuilder, fn: Any) -> sf.KStream[str, str]:
    return builder.table("in", key=str, value=str, store="in").map_values(fn).to_stream()


def of_a_joiner(builder: sf.StreamsBuilder, fn: Any) -> sf.KStream[str, str]:
    table = builder.table("in", key=str, value=str, store="in")
    return table.left_join(builder.table("in2", key=str, value=str, store="in2"), joined(fn)).to_stream()


def joined(fn: Any) -> Any:
    async def join(left: str, right: str | None) -> Any:
        return await fn(left)

    return join


@pytest.mark.parametrize("fn", [audited, cancels_all])
@pytest.mark.parametrize("build", [of_a_stream, of_a_table, of_a_joiner])
def test_a_dead_event_loop_is_not_handled_as_a_record_error(
    build: Callable[[sf.StreamsBuilder, Any], sf.KStream[str, str]], fn: Any
) -> None:
    """Otherwise each record from then on would be left out, in an application that runs."""
    builder = sf.StreamsBuilder()
    build(builder, fn).to("out", key=str, value=str)
    topology = builder.build()
    driver = driver_of(topology, on_processing_error=sf.log_and_continue())
    try:
        topic = driver.input("in", str, str)
        topic.pipe("k", "a")
        assert driver.output("out", str, str).read_values_to_list() == ["aTrue"]
        with pytest.raises(sf.ProcessingError, match="event loop has ended"):
            topic.pipe("k", "bad")
    finally:
        driver.close()
    # The next run has a loop of its own.
    with driver_of(topology) as driver:
        driver.input("in", str, str).pipe("k", "c")
        assert driver.output("out", str, str).read_values_to_list() == ["cTrue"]


def test_a_call_after_the_loop_died_is_not_handled_as_a_record_error() -> None:
    """The task ends the loop when nothing is under way."""

    async def later(value: str) -> str:
        if value == "bad":
            asyncio.get_running_loop().call_later(0.05, sys.exit, 3)
        return value

    builder = sf.StreamsBuilder()
    of_a_stream(builder, later).to("out", key=str, value=str)
    topology = builder.build()
    with pytest.raises(sf.ProcessingError, match="event loop has ended"):  # noqa: PT012, SIM117  # it fails at some record
        with driver_of(topology, on_processing_error=sf.log_and_continue()) as driver:
            topic = driver.input("in", str, str)
            topic.pipe("k", "bad")
            loop = topology.event_loop
            assert loop is not None
            while not loop.has_died():
                pass
            topic.pipe("k", "c")


def test_a_call_while_the_loop_ends_is_never_made() -> None:
    """Its task would be left pending when the loop closes, and say so in the log."""
    made: list[int] = []

    async def one(value: int) -> int:
        made.append(value)
        return value

    async def closes_late() -> AsyncIterator[None]:
        yield
        # Thread and loop as they are when a lane calls at the last moment.
        with pytest.raises(RuntimeError, match="because the application stops"):
            await asyncio.to_thread(caller, 7)
        call = Mock(line=1)
        caller.submit([call], 0.0)
        await asyncio.sleep(0)
        call.failed.assert_called_once()
        made.append(0)

    loop = EventLoop([sf.StreamsBuilder().resource(closes_late)])
    caller = loop.caller(awaiting(one), "one")
    loop.acquire()
    assert caller(1) == 1
    loop.release()
    assert made == [1, 0]


def test_tasks_of_a_resource_are_there_until_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever sends in the background sends what is left, when it is closed."""
    monkeypatch.setattr("stoatflow._runtime.event_loop._CLOSING_S", 60.0)
    sent: list[str] = []
    builder = sf.StreamsBuilder()

    @builder.resource
    async def outbox() -> AsyncIterator[asyncio.Queue[str]]:
        queue: asyncio.Queue[str] = asyncio.Queue()

        async def drain() -> None:
            while True:
                item = await queue.get()
                await asyncio.sleep(0.01)
                sent.append(item)
                queue.task_done()

        sender = asyncio.create_task(drain())
        yield queue
        await queue.join()
        sender.cancel()
        sent.append("closed")

    async def note(value: str) -> str:
        outbox.value.put_nowait(value)
        return value

    of_a_stream(builder, note).to("out", key=str, value=str)
    values = [f"v{n}" for n in range(5)]
    with driver_of(builder.build()) as driver:
        topic = driver.input("in", str, str)
        for value in values:
            topic.pipe("k", value)
    assert sent == [*values, "closed"]


def test_a_mock_is_a_plain_function() -> None:
    """It has every attribute that is asked for."""
    fn = Mock(side_effect=str.upper)
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).map_values(fn, name="work").to("out", key=str, value=str)
    with driver_of(builder.build()) as driver:
        driver.input("in", str, str).pipe("k", "a")
        assert driver.output("out", str, str).read_values_to_list() == ["A"]
    fn.assert_called_once_with("a")
    assert fn.method_calls == []


def test_a_run_that_is_aborted_cancels_nothing_of_another_one() -> None:
    loop = EventLoop()
    begun = threading.Event()

    async def hangs() -> None:
        begun.set()
        await asyncio.sleep(600)

    loop.acquire()
    loop.acquire()
    call = loop.run(hangs)
    assert begun.wait(60)
    loop.cancel()
    with pytest.raises(TimeoutError):
        call.result(0.2)
    loop.release()
    loop.cancel()
    with pytest.raises(CancelledError):
        call.result(60)
    loop.release()


def test_a_call_that_reaches_a_loop_in_its_last_moment_leaves_nothing_behind() -> None:
    """A call that never begins creates no coroutine, which nobody would await."""
    loop = EventLoop()
    ending, made = threading.Event(), []

    async def call() -> None:
        """The coroutine that must not be created."""

    def make() -> Coroutine[Any, Any, None]:
        made.append(1)
        return call()

    def last() -> None:
        assert ending.wait(60)
        raise SystemExit

    loop.acquire()
    # The loop stops after the callbacks that are queued before the call.
    loop.call_soon(last)
    future = loop.run(make)
    ending.set()
    with pytest.raises(CancelledError):
        future.result(60)
    assert made == []
    loop.release()


def test_a_slowly_closing_loop_does_not_disturb_its_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, may_close, closed = 0, threading.Event(), threading.Event()
    builder = sf.StreamsBuilder()

    @builder.resource
    async def number() -> AsyncIterator[int]:
        nonlocal opened
        opened += 1
        yield opened
        if not closed.is_set():
            await asyncio.to_thread(may_close.wait, 300)
            closed.set()

    async def numbered(value: str) -> str:
        return f"{value}{number.value}"

    builder.stream("in", key=str, value=str).map_values(numbered).to("out", key=str, value=str)
    topology = builder.build()
    monkeypatch.setattr("stoatflow._runtime.event_loop._CLOSING_S", 0.1)
    with driver_of(topology):
        (first,) = [t for t in threading.enumerate() if t.name == "stoatflow-event-loop"]
    assert first.is_alive()
    with driver_of(topology) as driver:
        may_close.set()
        first.join(60)
        assert closed.is_set()
        driver.input("in", str, str).pipe("k", "v")
        assert driver.output("out", str, str).read_values_to_list() == ["v2"]


def test_a_stopped_loop_raises() -> None:
    loop = EventLoop()
    caller = loop.caller(sf.awaiting(audited), "app.py:1 audited")
    with pytest.raises(RuntimeError, match="while no application runs"):
        caller("x")
