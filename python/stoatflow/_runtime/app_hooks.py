"""Callbacks of an application: state listeners, hooks, and the handler of uncaught exceptions.

Takes the user's functions, before or after the start. The application calls them, and its listeners through here.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from stoatflow.errors import ConfigError
from stoatflow.hooks import ExceptionResponse

if TYPE_CHECKING:
    from stoatflow.app import State, StateListener
    from stoatflow.durations import Duration
    from stoatflow.hooks import Hook, Hooks, Phase, UncaughtExceptionHandler
    from stoatflow.spark.engine import SparkEngine

__all__ = ["AppHooks"]

_log = logging.getLogger("stoatflow")


class AppHooks:
    """The part of `StoatFlow` that registers callbacks."""

    _listeners: list[StateListener]
    _hooks: Hooks
    _uncaught: UncaughtExceptionHandler | None
    _on_spark: SparkEngine | None

    def add_state_listener(self, listener: StateListener) -> None:
        """Call `listener(new, old)` at every change of state. An exception of the listener is logged.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     app = sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker)
        ...     app.add_state_listener(lambda new, old: print(f"{old} -> {new}"))
        ...     with app:
        ...         app.wait_until("RUNNING")
        CREATED -> STARTING
        STARTING -> RESTORING
        RESTORING -> RUNNING
        RUNNING -> STOPPING
        STOPPING -> STOPPED
        """
        self._listeners.append(listener)

    def add_hook(
        self, phase: Phase | str, hook: Hook, *, order: int = 0, timeout: float | Duration | None = "30s"
    ) -> None:
        """Call `hook(app)` in a phase: PRE_START, POST_START, PRE_STOP or POST_STOP; smaller orders first.

        A hook may be `async def`. A PRE_START hook that raises prevents the start; exceptions of other hooks are
        logged. A hook that takes longer than `timeout` counts as failed.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     app = sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker)
        ...     app.add_hook("PRE_START", lambda app: print("starts"))
        ...     app.add_hook("POST_STOP", lambda app: print("has stopped"))
        ...     with app:
        ...         app.wait_until("RUNNING")
        starts
        has stopped
        """
        self._hooks.add(phase, hook, order, timeout)

    def set_uncaught_exception_handler(self, handler: UncaughtExceptionHandler) -> None:
        """Ask `handler(error)` what to do about an error that would end the application, once it was RUNNING.

        REPLACE_THREAD restarts the application from the last commit, in this process, at most `restart.max.attempts`
        times within `restart.window.ms`; not after `FencedError`, `UnknownOutcomeError` and other errors that need a
        new process. SHUTDOWN_CLIENT and SHUTDOWN_APPLICATION end the application with the error.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("in", value=str).foreach(lambda key, text: int(text))
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("in")
        ...     app = sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker)
        ...     app.set_uncaught_exception_handler(lambda error: print(type(error).__name__) or "SHUTDOWN_CLIENT")
        ...     app.start()
        ...     app.wait_until("RUNNING")
        ...     broker.produce("in", None, "ten")
        ...     print(app.has_ended(10), app.state)
        ProcessingError
        True ERROR
        """
        if self._on_spark is not None:
            self._on_spark.refuse("set_uncaught_exception_handler()")
        if not callable(handler):
            raise ConfigError(
                f"a handler is a function (error), not {handler!r}",
                next_step=f"let it give one of {', '.join(ExceptionResponse)}",
            )
        self._uncaught = handler

    def _notify_listeners(self, new: State, old: State) -> None:
        for listener in tuple(self._listeners):
            _call_listener(listener, new, old)


def _call_listener(listener: StateListener, new: State, old: State) -> None:
    try:
        listener(new, old)
    except Exception:  # an exception of a listener must not stop the engine
        _log.exception("a state listener failed at %s", new)
