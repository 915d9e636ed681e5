"""Hooks of an application's lifecycle: before and after its start, before and after its stop.

Takes functions with an order and a timeout; calls each in a thread of its own, those with `async def` in an event loop
of their own. An exception before the start prevents the start; in other phases it is logged.
"""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from stoatflow.durations import Duration, timeout_s
from stoatflow.errors import ConfigError

if TYPE_CHECKING:
    from stoatflow.app import StoatFlow

_log = logging.getLogger("stoatflow")


class Phase(str, Enum):
    """When a hook is called.

    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("in").to("out")
    >>> app = sf.StoatFlow(builder.build(), {"application.id": "app", "bootstrap.servers": "localhost:9092"})
    >>> app.add_hook(sf.Phase.POST_START, lambda app: print("running"))
    >>> str(sf.Phase.POST_START)
    'POST_START'
    """

    PRE_START = "PRE_START"
    """Before anything is started. An exception is raised by `start()` or `run()`, and nothing is started."""
    POST_START = "POST_START"
    """When the state is RUNNING for the first time. Processing doesn't wait for the hook."""
    PRE_STOP = "PRE_STOP"
    """When a stop is requested, before the last records are drained. Not after an error."""
    POST_STOP = "POST_STOP"
    """When the application has stopped or failed, before `run()`, `wait()` and `close()` return."""

    def __str__(self) -> str:
        """Return its name."""
        return self.value


Hook = Callable[["StoatFlow"], object]
"""Called with the application; may be `async def`."""


class ExceptionResponse(str, Enum):
    """What to do after an error that would end the application, by Kafka Streams' names.

    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("in").to("out")
    >>> app = sf.StoatFlow(builder.build(), {"application.id": "app", "bootstrap.servers": "localhost:9092"})
    >>> app.set_uncaught_exception_handler(lambda error: sf.ExceptionResponse.REPLACE_THREAD)
    >>> sf.ExceptionResponse("REPLACE_THREAD")
    <ExceptionResponse.REPLACE_THREAD: 'REPLACE_THREAD'>
    """

    REPLACE_THREAD = "REPLACE_THREAD"
    """Restart from the last commit, in this process."""
    SHUTDOWN_CLIENT = "SHUTDOWN_CLIENT"
    """Stop with the error."""
    SHUTDOWN_APPLICATION = "SHUTDOWN_APPLICATION"
    """The same as SHUTDOWN_CLIENT: the application is a single process."""

    def __str__(self) -> str:
        """Return its name."""
        return self.value


UncaughtExceptionHandler = Callable[[BaseException], "ExceptionResponse | str"]
"""Called with the error that would end the application, in a thread of the engine."""


@dataclass(frozen=True, slots=True)
class _Entry:
    call: Hook
    order: int
    timeout_s: float | None

    @property
    def name(self) -> str:
        return getattr(self.call, "__qualname__", None) or repr(self.call)


class Hooks:
    """The hooks of one application."""

    def __init__(self) -> None:
        """Start without hooks."""
        self._entries: dict[Phase, list[_Entry]] = {phase: [] for phase in Phase}

    def add(self, phase: Phase | str, call: Hook, order: int, timeout: float | Duration | None) -> None:
        """Add a hook; raise `ConfigError` if it is invalid."""
        if phase not in list(Phase):
            raise ConfigError(f"there is no phase {phase!r}", next_step=f"write one of {', '.join(Phase)}")
        if not callable(call):
            raise ConfigError(f"a hook is a function (app), not {call!r}", next_step="pass the function itself")
        entries = self._entries[Phase(phase)]
        entries.append(_Entry(call, order, timeout_s(timeout)))
        entries.sort(key=lambda entry: entry.order)  # stable: of equal order, the first added runs first

    def has(self, phase: Phase) -> bool:
        """Whether there are hooks in this phase."""
        return bool(self._entries[phase])

    def veto(self, app: StoatFlow) -> None:
        """Call the hooks before the start; raise the first exception."""
        for entry in self._entries[Phase.PRE_START]:
            error = _call(entry, Phase.PRE_START, app)
            if error is not None:
                raise error

    def run(self, phase: Phase, app: StoatFlow) -> None:
        """Call all hooks of a phase; log their exceptions."""
        for entry in self._entries[phase]:
            error = _call(entry, phase, app)
            if error is not None:
                _log.error("the %s hook %s failed", phase, entry.name, exc_info=error)


def _call(entry: _Entry, phase: Phase, app: StoatFlow) -> BaseException | None:
    """Call a hook; return its exception, or an error if it took too long."""
    raised: list[BaseException] = []

    def body() -> None:
        try:
            result: Any = entry.call(app)
            if inspect.isawaitable(result):
                import asyncio  # asyncio imports ssl: loaded only for async hooks

                asyncio.run(_awaited(result))
        except BaseException as error:  # returned to the waiting thread
            raised.append(error)

    thread = threading.Thread(target=body, name=f"stoatflow-{phase.lower()}", daemon=True)
    thread.start()
    thread.join(entry.timeout_s)
    if thread.is_alive():
        return TimeoutError(
            f"the {phase} hook {entry.name} has not ended within {entry.timeout_s:g} s. "
            "Next: make it quicker, or give it more time: add_hook(..., timeout=)"
        )
    return raised[0] if raised else None


async def _awaited(result: Awaitable[object]) -> object:
    return await result


def response_of(handler: UncaughtExceptionHandler, error: BaseException) -> str:
    """Call the handler; return its response's name. A failing handler or an unknown response ends the application."""
    try:
        response = handler(error)
        return ExceptionResponse(response).value
    except Exception:  # whatever the handler raises, the first error is the one that counts
        _log.exception(
            "the uncaught exception handler failed; the application ends. Next: let it give one of %s",
            ", ".join(ExceptionResponse),
        )
        return ExceptionResponse.SHUTDOWN_CLIENT.value
