"""Runs a topology: start, wait, stop, in scripts, notebooks, threads and asyncio programs.

Takes a topology and settings, owns one engine: the one in this process, or Spark (`stoatflow.spark.engine`). Waits in
short steps with the interpreter detached, so that signals, other threads and event loops are handled. One object is one
run.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Literal, cast

from stoatflow._runtime import engines, process_exit
from stoatflow._runtime.app_hooks import AppHooks
from stoatflow._runtime.app_reads import AppReads
from stoatflow._runtime.app_services import AppServices, Services
from stoatflow._runtime.app_shutdown import STEP_S, AppShutdown
from stoatflow._runtime.waiting import wait_until
from stoatflow.durations import Duration, timeout_s
from stoatflow.handlers import OnError, with_handlers
from stoatflow.hooks import ExceptionResponse, Hooks, Phase, UncaughtExceptionHandler, response_of
from stoatflow.restoring import RestoreBar, RestoreListener
from stoatflow.settings import Settings, as_settings
from stoatflow.topology import Topology, built

if TYPE_CHECKING:
    from stoatflow._runtime import bridge
    from stoatflow.embedded import EmbeddedBroker
    from stoatflow.spark.engine import SparkEngine
    from stoatflow.spark.options import SparkOptions

_ABORT_S = 3.0


class State(str, Enum):
    """What an application is doing.

    >>> builder = sf.StreamsBuilder()
    >>> users = builder.table("users", key=str, value=str, store="users")
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("users")
    ...     broker.produce("users", "u1", "Ann")
    ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
    ...         app.wait_until(caught_up=True)
    ...         print(app.state is sf.State.RUNNING)
    True
    """

    CREATED = "CREATED"
    STARTING = "STARTING"
    RESTORING = "RESTORING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    ERROR = "ERROR"

    def __str__(self) -> str:
        """Return its name."""
        return self.value


StateListener = Callable[[State, State], object]
"""Called with the new and the old state, in a thread of the engine."""


class StoatFlow(AppReads, AppHooks, AppServices, AppShutdown):
    """One run of a topology.

    `StoatFlow(topology, {"application.id": "orders", "bootstrap.servers": "localhost:9092"}).run()`

    >>> builder = sf.StreamsBuilder()
    >>> users = builder.table("users", key=str, value=str, store="users")
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("users")
    ...     broker.produce("users", "u1", "Ann")
    ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
    ...         app.wait_until(caught_up=True)
    ...         print(app.state, app.store("users").get("u1"))
    RUNNING Ann
    """

    def __init__(
        self,
        topology: Topology,
        config: Settings | Mapping[str, object] | None = None,
        *,
        broker: EmbeddedBroker | None = None,
        on_restore: RestoreListener | None = None,
        on_processing_error: OnError | None = None,
        on_deserialization_error: OnError | None = None,
        on_production_error: OnError | None = None,
        engine: Literal["stoatflow", "spark"] = "stoatflow",
        batch: bool = False,
        spark: SparkOptions | None = None,
        **settings: object,
    ) -> None:
        """Check everything and start nothing; raise `ConfigError` or `TopologyError`.

        `on_..._error` handle records that fail where neither source nor operator has a handler. `engine="spark"` runs
        the topology on Spark with the options `spark`: as a stream, or with `batch` to the end of its input.
        """
        self.settings: Settings = as_settings(config, settings)
        topology = built(topology).for_settings(self.settings)
        self.topology = topology
        self._event_loop = topology.event_loop
        self._on_loop = False
        self._listeners: list[StateListener] = []
        self._hooks = Hooks()
        self._has_run = False
        self._stopping = False
        self._uncaught: UncaughtExceptionHandler | None = None
        self._states: list[State] = [State.CREATED]
        self._started = False
        self._starting = threading.Lock()
        # An engine that is asked to stop before its start never starts; `start` passes on requests to stop
        # that came meanwhile.
        self._launched = False
        self._asked_to_stop = False
        self._stop_within: float | None = None
        self._error: BaseException | None = None
        self._raised = False
        handlers = (on_processing_error, on_deserialization_error, on_production_error)
        self._on_spark: SparkEngine | None = None
        if engines.is_spark(engine, batch, spark):
            no_meaning = (broker, on_restore, *handlers)
            self._on_spark = engines.on_spark(topology, self.settings, spark, batch, self._on_state, no_meaning)
            # It has the methods that are called here, and raises an error that names what it doesn't support.
            self._engine = cast("bridge.Engine", self._on_spark)
        else:
            self.settings = engines.at_broker(self.settings, broker)
            plan = with_handlers(topology.plan, *handlers)
            self._engine = engines.native(plan, self.settings, broker, self._on_state, on_restore, self._on_uncaught)
        from stoatflow.doctor.hint import Hints  # only a running application has hints

        self._hints = Hints(topology, self._engine)
        self._services = Services(self._engine, topology.metrics)

    # Running ---------------------------------------------------------------------------------

    def run(self) -> None:
        """Start and block until the end. Raises the error that the engine failed with.

        In the main thread, the first SIGINT or SIGTERM drains and commits, for at most `shutdown.timeout.ms`; the
        second one ends the process within two seconds, even if a function hangs.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     app = sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker)
        ...     app.add_hook("POST_START", lambda app: app.close())
        ...     app.run()
        ...     print(app.state)
        STOPPED
        """
        with self._signals():
            self.start()
            try:
                self._show_restore()
                while not self._wait(STEP_S):
                    pass
            except BaseException:
                # An error of the engine or an exception of another signal handler: leave nothing running.
                self.close()
                raise
        self._raise()

    def start(self) -> None:
        """Start in the background and return at once.

        >>> import contextlib
        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     app = sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker)
        ...     with contextlib.closing(app):
        ...         app.start()
        ...         app.wait_until("RUNNING")
        ...         print(app.state)
        RUNNING
        """
        with self._starting:
            if self._started:
                raise RuntimeError("this StoatFlow was started before. Next: make a new one for another run")
            self._started = True
        try:
            self._hooks.veto(self)
        except BaseException:
            # It never starts, so nothing has to wait for it.
            self._engine.request_stop(None)
            raise
        process_exit.started(self)
        try:
            if self._event_loop is not None:
                self._event_loop.acquire()
                self._on_loop = True
            self._engine.start()
        finally:
            self._launched = True
            if self._asked_to_stop:
                self._engine.request_stop(self._stop_within)
        if self._on_spark is None:
            self._hints.start()
            self._services.start()

    def wait(self, timeout: float | Duration | None = None) -> bool:
        """Wait for the end; returns False if it still runs after `timeout` (seconds, `timedelta` or text).

        Raises the error that the engine failed with.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         print(app.wait(timeout="10ms"), app.close(), app.wait())
        False True True
        """
        seconds = timeout_s(timeout)
        ended = self._wait_in_steps(seconds)
        if ended:
            self._raise()
        return ended

    def close(self, timeout: float | Duration | None = None) -> bool:
        """Drain, commit and stop. Returns False if `timeout` passed first: then the last commit is abandoned.

        The default `timeout` is `shutdown.timeout.ms`. A function that doesn't return is left running, about two
        seconds later; `error` says so. Never raises the engine's error: it is in `error`, and `run`, `wait` and `with`
        raise it.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until("RUNNING")
        ...         print(app.close("10s"), app.state)
        True STOPPED
        """
        if not self._started:
            return True
        self._request_stop()
        within = timeout_s(timeout)
        if self._wait_in_steps(self._engine.shutdown_timeout_s() if within is None else within):
            return True
        self.abandon()
        self._wait_in_steps(_ABORT_S)
        return False

    stop = close

    def wait_until(
        self,
        state: State | str | None = None,
        *,
        caught_up: bool = False,
        timeout: float | Duration | None = "30s",
    ) -> None:
        """Wait until the application is in this state; with `caught_up`, until it has committed its current input.

        Caught up means: it is RUNNING, and the committed positions have reached the ends that all source partitions had
        when `wait_until` was called. Records that are parked for an async function or an `offload` count as read.
        Raises `TimeoutError`, which says how far it is, or the error that the application failed with.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.store("users").get("u1"))
        Ann
        """
        if caught_up and self._on_spark is not None:
            self._on_spark.wait_until_caught_up(timeout_s(timeout), self.wait)
            return
        wanted = None if state is None else State(state).value
        wait_until(self._engine, self.wait, wanted, timeout_s(timeout), caught_up=caught_up)

    def pause(self) -> None:
        """Stop reading, before the start or while it runs. Returns at once.

        Records already read are committed; then the state is `PAUSED`, until `resume`. Punctuations and timers by the
        wall clock, and async calls, go on, and stores can be read.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until("RUNNING")
        ...         app.pause()
        ...         app.wait_until("PAUSED")
        ...         print(app.state)
        PAUSED
        """
        self._engine.pause()

    def resume(self) -> None:
        """Read again after `pause`. Returns at once.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("in").to("out")
        >>> app = sf.StoatFlow(builder.build(), {"application.id": "app", "bootstrap.servers": "localhost:9092"})
        >>> app.pause()
        >>> app.resume()
        >>> app.is_paused
        False
        """
        self._engine.resume()

    @property
    def is_paused(self) -> bool:
        """Whether it is paused.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("in").to("out")
        >>> app = sf.StoatFlow(builder.build(), {"application.id": "app", "bootstrap.servers": "localhost:9092"})
        >>> app.pause()
        >>> app.is_paused
        True
        """
        return self._engine.is_paused()

    def clean_up(self) -> None:
        """Remove the local state: the next start restores it from the changelog topics.

        Call it only before the start or after the end; raises `StateLockedError` if another process runs the
        application. Stores without a changelog are lost. `stoatflow reset` also resets the application's topics and
        positions.

        >>> from pathlib import Path
        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     app = sf.StoatFlow(builder.build(), {"application.id": "app", "state.dir": "state"}, broker=broker)
        ...     with app:
        ...         app.wait_until("RUNNING")
        ...     app.clean_up()
        ...     print(list(Path("state").rglob("*")))
        []
        """
        if self._started and not self._wait(0.0):
            raise RuntimeError("this StoatFlow is running. Next: close() it before its local state is removed")
        self._engine.clean_up()

    async def run_async(self) -> None:
        """Start and wait for the end without blocking the event loop; cancelling it drains and commits.

        >>> import asyncio
        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     app = sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker)
        ...     app.add_hook("POST_START", lambda app: app.close())
        ...     asyncio.run(app.run_async())
        ...     print(app.state)
        STOPPED
        """
        import asyncio

        self.start()
        try:
            while not await asyncio.to_thread(self._wait, STEP_S):
                pass
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.to_thread(self.close))
            raise
        self._raise()

    def __enter__(self) -> StoatFlow:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; raise the engine's error unless it, or another error, is being raised already."""
        self.close()
        if error is None and not self._raised:
            self._raise()

    async def __aenter__(self) -> StoatFlow:
        """Start."""
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close without blocking the event loop; raise as `with` does."""
        import asyncio

        await asyncio.to_thread(self.close)
        if error is None and not self._raised:
            self._raise()

    # Inspection ------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The current state.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("in").to("out")
        >>> app = sf.StoatFlow(builder.build(), {"application.id": "app", "bootstrap.servers": "localhost:9092"})
        >>> app.state
        <State.CREATED: 'CREATED'>
        """
        return State(self._engine.state())

    @property
    def states(self) -> tuple[State, ...]:
        """All states so far, in order.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until("RUNNING")
        ...     print(*app.states)
        CREATED STARTING RESTORING RUNNING STOPPING STOPPED
        """
        return tuple(self._states)

    @property
    def error(self) -> BaseException | None:
        """The error that the engine failed with, if any.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("in", value=str).foreach(lambda key, text: int(text))
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("in")
        ...     broker.produce("in", None, "ten")
        ...     app = sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker)
        ...     app.start()
        ...     print(app.has_ended(10), type(app.error).__name__)
        True ProcessingError
        """
        if self._error is None and self._started:
            self._wait(0.0)
        return self._error

    def __repr__(self) -> str:
        """Show name and state."""
        return f"<StoatFlow {self.settings.get('application.id')} {self.state}>"

    # Inside ----------------------------------------------------------------------------------

    def _show_restore(self) -> None:
        """On a terminal, show a progress bar while stores are restored (elsewhere the log has a line now and then)."""
        if not sys.stderr.isatty():
            return
        bar = RestoreBar(sys.stderr)
        while self.state in {State.STARTING, State.CREATED, State.RESTORING} and not self._wait(STEP_S):
            bar.draw(self._engine.restore_progress())
        bar.clear()

    def _raise(self) -> None:
        if self._error is not None:
            self._raised = True
            raise self._error

    def _on_uncaught(self, error: BaseException) -> str:
        handler = self._uncaught
        return ExceptionResponse.SHUTDOWN_CLIENT.value if handler is None else response_of(handler, error)

    def _on_state(self, new: str, old: str) -> None:
        self._states.append(State(new))
        if State(new) is State.RUNNING and not self._has_run:
            self._has_run = True
            if self._hooks.has(Phase.POST_START):
                call = self._hooks.run
                threading.Thread(
                    target=call, args=(Phase.POST_START, self), name="stoatflow-hooks", daemon=True
                ).start()
        if State(new) in {State.STOPPED, State.ERROR}:
            self._hints.end()
            self._services.end()
        if self._event_loop is not None and self._on_loop and State(new) in {State.STOPPED, State.ERROR}:
            self._on_loop = False
            self._event_loop.release()
        self._notify_listeners(State(new), State(old))
        if State(new) in {State.STOPPED, State.ERROR}:
            self._hooks.run(Phase.POST_STOP, self)
