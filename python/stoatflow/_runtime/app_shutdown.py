"""The end of an application: waits for it, and lets `process_exit` end the process if a function doesn't return.

Takes the engine of the run, keeps its error. Waits in short steps, and never for a user's function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoatflow._runtime import bridge
from stoatflow.errors import StoatFlowError

if TYPE_CHECKING:
    from stoatflow._runtime.event_loop import EventLoop
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
    _error: BaseException | None

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
