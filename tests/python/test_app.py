"""Starting, waiting and stopping: threads, signals, asyncio, failures. On the embedded broker."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from stoatflow import EmbeddedBroker, State, StoatFlow
from stoatflow._runtime import process_exit


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "broker") as made:
        made.create_topic("in", 2)
        made.create_topic("out", 2)
        yield made


@pytest.fixture
def make(broker: EmbeddedBroker, tmp_path: Path) -> Callable[..., StoatFlow]:
    def upper_app(fn: Callable[[str], str] = str.upper) -> StoatFlow:
        builder = sf.StreamsBuilder()
        builder.stream("in", key=str, value=str).map_values(fn).to("out", value=str)
        config = sf.Settings({"application.id": "app", "state.dir": str(tmp_path / "state")}, environ={})
        return StoatFlow(builder.build(), config, broker=broker)

    return upper_app


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def later(action: Callable[[], Any], app: StoatFlow) -> threading.Thread:
    """Run the action as soon as the application runs."""

    def wait_and_act() -> None:
        until(lambda: app.state is State.RUNNING)
        action()

    thread = threading.Thread(target=wait_and_act)
    thread.start()
    return thread


def test_start_and_close(make: Callable[..., StoatFlow], broker: EmbeddedBroker) -> None:
    broker.produce_many("in", [(None, b"k", b"a", 1), (None, b"k", b"b", 2)])
    app = make()
    heard: list[tuple[State, State]] = []
    app.add_state_listener(lambda new, old: heard.append((new, old)))
    assert str(app.state) == "CREATED"
    assert app.close(), "closing before the start does nothing"
    app.start()
    until(lambda: len(list(broker.read("out"))) == 2)
    until(lambda: app.lag() == 0)
    assert not app.wait(timeout=0)
    assert isinstance(app.metrics(), dict)
    assert app.close(timeout="60s")
    assert app.state is State.STOPPED
    assert app.wait(0)
    assert app.error is None
    assert app.states[0] is State.CREATED
    assert app.states[-2:] == (State.STOPPING, State.STOPPED)
    assert State.RUNNING in app.states
    assert [new for new, _ in heard] == list(app.states[1:])
    assert [record.value for record in broker.read("out")] == [b"A", b"B"]
    assert app.close(), "closing twice does nothing"
    with pytest.raises(RuntimeError, match="make a new one"):
        app.start()


def test_committed_records_are_not_processed_again(make: Callable[..., StoatFlow], broker: EmbeddedBroker) -> None:
    for count in (1, 2):
        broker.produce("in", b"k", b"v", timestamp=1)
        with make() as app:
            until(lambda wanted=count: len(list(broker.read("out"))) == wanted)  # type: ignore[misc]
        assert app.state is State.STOPPED
    assert sum(broker.end_offsets("out").values()) == 2


def test_run_ends_when_another_thread_closes(make: Callable[..., StoatFlow]) -> None:
    app = make()
    thread = later(app.close, app)
    app.run()
    thread.join()
    assert app.state is State.STOPPED


def test_run_off_the_main_thread(make: Callable[..., StoatFlow]) -> None:
    app = make()
    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=app.run)
    thread.start()
    until(lambda: app.state is State.RUNNING)
    assert signal.getsignal(signal.SIGINT) is before
    app.close()
    thread.join()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_drains(make: Callable[..., StoatFlow], broker: EmbeddedBroker, number: signal.Signals) -> None:
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    broker.produce("in", b"k", b"v", timestamp=1)
    app = make()
    thread = later(lambda: os.kill(os.getpid(), number), app)
    app.run()
    thread.join()
    assert app.state is State.STOPPED
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_signal_while_it_starts_drains(broker: EmbeddedBroker, tmp_path: Path) -> None:
    opened = threading.Event()
    builder = sf.StreamsBuilder()

    @builder.resource
    async def pool() -> AsyncIterator[None]:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0.2)
        opened.set()
        yield
        opened.clear()

    builder.stream("in", key=str, value=str).map_values(str.upper).to("out", value=str)
    config = sf.Settings({"application.id": "app", "state.dir": str(tmp_path / "state")}, environ={})
    app = StoatFlow(builder.build(), config, broker=broker)
    app.run()
    assert app.state is State.STOPPED
    assert not opened.is_set(), "what was opened is closed"


def test_a_signal_right_after_the_start_drains(make: Callable[..., StoatFlow], monkeypatch: pytest.MonkeyPatch) -> None:
    app = make()
    monkeypatch.setattr(app._hints, "start", lambda: os.kill(os.getpid(), signal.SIGINT))
    app.run()
    assert app.state is State.STOPPED


def test_a_close_while_it_starts_stops_it(broker: EmbeddedBroker, tmp_path: Path) -> None:
    builder = sf.StreamsBuilder()
    opening, go_on = threading.Event(), threading.Event()

    @builder.resource
    def model() -> Iterator[None]:
        opening.set()
        go_on.wait(60)
        yield

    builder.stream("in", key=str, value=str).map_values(str.upper).to("out", value=str)
    config = sf.Settings({"application.id": "app", "state.dir": str(tmp_path / "state")}, environ={})
    app = StoatFlow(builder.build(), config, broker=broker)
    starting = threading.Thread(target=app.start)
    starting.start()
    assert opening.wait(60)
    closing = threading.Thread(target=app.close)
    closing.start()
    time.sleep(0.1)
    go_on.set()
    starting.join(60)
    closing.join(60)
    assert not closing.is_alive()
    assert app.state is State.STOPPED


def interrupted(_code: int) -> None:
    raise KeyboardInterrupt


def test_a_second_signal_aborts(
    make: Callable[..., StoatFlow], broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, release = threading.Event(), threading.Event()

    def hang(value: str) -> str:
        entered.set()
        release.wait(60)
        return value

    broker.produce("in", b"k", b"v", timestamp=1)
    app = make(hang)
    # On a slow machine the function returns too late, and that would end the process of the tests.
    monkeypatch.setattr(process_exit, "end_process", interrupted)
    monkeypatch.setattr(process_exit, "_last_resort", lambda _app: nullcontext())
    abandon = app.abandon

    def abandoned() -> None:
        abandon()
        release.set()

    monkeypatch.setattr(app, "abandon", abandoned)

    def twice() -> None:
        entered.wait(60)
        os.kill(os.getpid(), signal.SIGINT)
        until(lambda: app.state is State.STOPPING)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=twice)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        app.run()
    thread.join()
    assert sum(broker.end_offsets("out").values()) == 0, "what was not committed must not be seen"


@pytest.mark.parametrize("where", ["in a lane", "where input is read"])
def test_thread_locals_of_functions_survive(where: str, broker: EmbeddedBroker, tmp_path: Path) -> None:
    kept, made = threading.local(), []

    def keep() -> None:
        if not hasattr(kept, "client"):
            kept.client = object()
            made.append(threading.get_ident())

    def upper(value: str) -> str:
        keep()
        return value.upper()

    def at(record: Any, _partition_time: int) -> int:
        keep()
        return int(record.timestamp)

    builder = sf.StreamsBuilder()
    if where == "in a lane":
        builder.stream("in", key=str, value=str).map_values(upper).to("out", value=str)
    else:
        builder.stream("in", key=str, value=str, timestamp=at).to("out", value=str)
    config: dict[str, object] = {"application.id": "app", "state.dir": str(tmp_path / "state"), "lanes.count": 1}
    with StoatFlow(builder.build(), sf.Settings(config, environ={}), broker=broker):
        for count in range(1, 6):  # a batch each
            broker.produce("in", b"k", b"v", timestamp=count)
            until(lambda wanted=count: len(list(broker.read("out"))) == wanted)  # type: ignore[misc]
    assert len(made) == 1


def fail(value: str) -> str:
    raise LookupError(f"no {value}")


def test_run_raises_the_error(make: Callable[..., StoatFlow], broker: EmbeddedBroker) -> None:
    broker.produce("in", b"k", b"v", timestamp=1)
    app = make(fail)
    with pytest.raises(sf.ProcessingError, match="no v") as caught:
        app.run()
    assert isinstance(caught.value.__cause__, LookupError)
    assert app.error is caught.value
    assert app.state is State.ERROR
    assert app.close()


def test_with_raises_the_error_once(make: Callable[..., StoatFlow], broker: EmbeddedBroker) -> None:
    broker.produce("in", b"k", b"v", timestamp=1)
    app = make(fail)
    with pytest.raises(sf.ProcessingError), app:
        until(lambda: app.error is not None)
    broker.produce("in", b"k", b"v", timestamp=1)
    app = make(fail)
    with app, pytest.raises(sf.ProcessingError):
        app.wait("60s")


def test_an_error_of_the_with_body_wins(make: Callable[..., StoatFlow], broker: EmbeddedBroker) -> None:
    def body(app: StoatFlow) -> None:
        with app:
            until(lambda: app.error is not None)
            raise KeyError("the body's own")

    broker.produce("in", b"k", b"v", timestamp=1)
    with pytest.raises(KeyError, match="the body's own"):
        body(make(fail))


def test_a_failing_listener_is_ignored(make: Callable[..., StoatFlow], caplog: pytest.LogCaptureFixture) -> None:
    app = make()
    app.add_state_listener(lambda new, old: 1 / 0)
    with app:
        until(lambda: app.state is State.RUNNING)
    assert app.state is State.STOPPED
    assert "a state listener failed" in caplog.text


def test_asyncio(make: Callable[..., StoatFlow], broker: EmbeddedBroker) -> None:
    async def program() -> int:
        ticks = 0
        async with make() as app:
            broker.produce("in", b"k", b"v", timestamp=1)
            # At least once: on a slow machine the application may be done before the first check.
            while ticks == 0 or sum(broker.end_offsets("out").values()) < 1:
                ticks += 1
                await asyncio.sleep(0.01)
        assert app.state is State.STOPPED
        return ticks

    assert asyncio.run(asyncio.wait_for(program(), 60)) > 0
    assert sum(broker.end_offsets("out").values()) == 1


def test_run_async_can_be_cancelled(make: Callable[..., StoatFlow]) -> None:
    app = make()

    async def program() -> None:
        task = asyncio.create_task(app.run_async())
        while app.state is not State.RUNNING:  # noqa: ASYNC110  # there is no event to wait for
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(program(), 60))
    assert app.state is State.STOPPED


def test_run_async_raises_the_error(make: Callable[..., StoatFlow], broker: EmbeddedBroker) -> None:
    broker.produce("in", b"k", b"v", timestamp=1)
    with pytest.raises(sf.ProcessingError):
        asyncio.run(asyncio.wait_for(make(fail).run_async(), 60))


def test_wrong_settings_start_nothing(broker: EmbeddedBroker) -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in").to("out")
    topology = builder.build()
    with pytest.raises(sf.ConfigError) as caught:
        StoatFlow(topology, {"aplication.id": "a", "no.such": 1}, broker=broker)
    assert "aplication.id" in str(caught.value)
    assert "no.such" in str(caught.value)
    with pytest.raises(sf.ConfigError, match="embedded broker is given"):
        StoatFlow(topology, {"application.id": "a", "bootstrap.servers": "localhost:9092"}, broker=broker)
    with pytest.raises(sf.ConfigError, match="beside a Settings"):
        StoatFlow(topology, sf.Settings({"application.id": "a"}), lanes_count=3)


def test_a_missing_topic_is_named(broker: EmbeddedBroker, tmp_path: Path) -> None:
    builder = sf.StreamsBuilder()
    builder.stream("not-there").to("out")
    config = {"application.id": "app", "state.dir": str(tmp_path / "state")}
    with pytest.raises(sf.MissingTopicError, match="not-there"):
        StoatFlow(builder.build(), config, broker=broker).run()


def test_wait_until_raises_the_error_of_an_engine_that_is_still_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its state is ERROR a moment before the engine has ended and its error is known."""
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).map_values(int).to("out", key=str, value=int)
    with EmbeddedBroker() as broker:
        broker.create_topic("in")
        broker.create_topic("out")
        broker.produce("in", "k", "no number")
        app = StoatFlow(builder.build(), {"application.id": "app"}, broker=broker)
        app.start()
        while app.state is not State.ERROR:
            time.sleep(0.01)
        wait = app.wait
        monkeypatch.setattr(app, "wait", lambda timeout: wait(timeout) if timeout > 1 else False)
        with pytest.raises(sf.ProcessingError, match="no number"):
            app.wait_until(caught_up=True)
        app.close()
