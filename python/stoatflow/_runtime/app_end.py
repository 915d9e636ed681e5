"""The end of an application: waiting for it, and leaving although a function doesn't come back, as `leaving` asks.

Takes the engine of the run, keeps its error. Waits in short steps, and never for a function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoatflow._runtime import bridge
from stoatflow.errors import StoatFlowError

if TYPE_CHECKING:
    from stoatflow._runtime.event_loop import EventLoop
    from stoatflow.doctor.hint import Hints
    from stoatflow.spark.engine import SparkEngine

__all__ = ["STEP_S", "AppEnd"]

STEP_S = 0.1
"""After so long signals, other threads and event loops are heard."""


class AppEnd:
    """The part of `StoatFlow` that says how it ends."""

    _started: bool
    _engine: bridge.Engine
    _on_spark: SparkEngine | None
    _event_loop: EventLoop | None
    _hints: Hints
    _error: BaseException | None

    def is_alive(self) -> bool:
        """Has it begun, and a thread of it not ended?

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
        """Has it ended, or does it within this time?

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
        """Has it ended without a thread that is in a function which doesn't come back?

        Such a process ends with `os._exit` when the interpreter is about to: end it soon.

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
        """Stop without the last commit; what was read since the one before is read again. Returns at once.

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
            # A lane may wait for one of them.
            self._event_loop.cancel()

    def last_resort(self) -> bridge.LastResort | None:
        """Give what ends the process where Python can't; on Spark, no function runs in it."""
        return bridge.LastResort(self._engine) if self._on_spark is None else None

    def _wait(self, seconds: float) -> bool:
        """Wait once; the engine's error is kept, not raised."""
        try:
            ended = self._engine.wait(seconds)
        except (StoatFlowError, RuntimeError) as error:  # those of Spark are the latter
            # The engine gives it at every call; the first one is kept so that `error` stays one object.
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
