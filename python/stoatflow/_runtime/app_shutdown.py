"""The end of an application: waits for it, and lets `process_exit` end the process if a function doesn't return.

Takes the engine of the run, keeps its error. Handles signals, and calls hooks before a stop. Waits in short steps, and
never for a user's function.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from stoatflow._runtime import bridge, process_exit
from stoatflow.errors import StoatFlowError
from stoatflow.hooks import Hooks, Phase

if TYPE_CHECKING:
    from stoatflow._runtime.event_loop import EventLoop
    from stoatflow.app import StoatFlow
    from stoatflow.doctor.hint import Hints
    from stoatflow.spark.engine import SparkEngine

__all__ = ["STEP_S", "AppShutdown"]

STEP_S = 0.1
"""Longest wait before signals, other threads and event loops get to run."""


class AppShutdown:
    """The part of `StoatFlow` that stops and waits."""

    _started: bool
    _engine: bridge.Engine
    _on_spark: SparkEngine | None
    _event_loop: EventLoop | None
    _hints: Hints
    _hooks: Hooks
    _error: BaseException | None
    _launched: bool
    _asked_to_stop: bool
    _stop_within: float | None
    _stopping: bool

    def is_alive(self) -> bool:
        """Whether it has started and one of its threads has not ended.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         print(app.is_alive())
        ...     print(app.is_alive())
        True
        False
        """
        return self._started and (not self.has_ended(0.0) or self.has_left_behind())

    def has_ended(self, within_s: float) -> bool:
        """Whether it has ended, or ends within this time.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         print(app.has_ended(within_s=0.01))
        ...     print(app.has_ended(within_s=0.01))
        False
        True
        """
        return self._wait_in_steps(within_s)

    def has_left_behind(self) -> bool:
        """Whether it has ended but left a thread behind, in a function that doesn't return.

        Such a process ends with `os._exit` when the interpreter shuts down: end it soon.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until("RUNNING")
        ...     print(app.has_left_behind())
        False
        """
        return self._engine.has_left_behind()

    def abandon(self) -> None:
        """Stop without a last commit; records since the last commit are read again. Returns at once.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until("RUNNING")
        ...         app.abandon()
        ...         print(app.has_ended(within_s=10))
        True
        """
        self._engine.abort()
        if self._event_loop is not None:
            # A lane may wait for one of its calls.
            self._event_loop.cancel()

    def last_resort(self) -> bridge.LastResort | None:
        """Return what ends the process where Python can't; `None` on Spark, where no function runs in this process."""
        return bridge.LastResort(self._engine) if self._on_spark is None else None

    def _wait(self, seconds: float) -> bool:
        """Wait once; an error of the engine is kept, not raised."""
        try:
            ended = self._engine.wait(seconds)
        except (StoatFlowError, RuntimeError) as error:  # the errors of Spark are RuntimeErrors
            # The engine raises it at every call; the first one is kept so that `error` stays one object.
            self._error = self._error or error
            ended = True
        if ended:
            self._hints.wait()
        return ended

    def _wait_in_steps(self, seconds: float | None) -> bool:
        left = seconds
        while left is None or left > STEP_S:
            if self._wait(STEP_S):
                return True
            left = None if left is None else left - STEP_S
        return self._wait(left)

    def _request_stop(self, within_s: float | None = None) -> None:
        self._stop_within = self._stop_within if within_s is None else within_s
        self._asked_to_stop = True
        if not self._launched:
            return
        if self._hooks.has(Phase.PRE_STOP) and not self._stopping:
            self._stopping = True
            # In a thread: signal handlers and callers must not wait for the hooks here.
            threading.Thread(target=self._stop_behind_hooks, name="stoatflow-stop", daemon=True).start()
        elif not self._stopping:
            self._engine.request_stop(self._stop_within)

    def _stop_behind_hooks(self) -> None:
        try:
            if self._engine.state() not in {"STOPPED", "ERROR"}:
                self._hooks.run(Phase.PRE_STOP, cast("StoatFlow", self))
        finally:
            self._engine.request_stop(self._stop_within)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM while `run` blocks; only the main thread may."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        with process_exit.signals(
            cast("StoatFlow", self), lambda: self._request_stop(self._engine.shutdown_timeout_s())
        ):
            yield
