"""Ends the process although a user's function doesn't return.

Tracks the applications that were started. If one has left a thread behind, the interpreter must not be finalized: the
thread would crash the process when it returns to the interpreter. In that case the process ends here, with logs and
streams flushed. Never ends a process that is not about to end by itself.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

from stoatflow._runtime import bridge
from stoatflow.embedded import remove_temporary_directories
from stoatflow.errors import FencedError, StalledError

if TYPE_CHECKING:
    from stoatflow.app import StoatFlow

ABORT_S = 1.2
"""How long an aborted engine may take before the process ends without it."""
_FLUSH_S = 0.4
"""How long flushing logs and streams may take: a function may hang in one of them."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_log = logging.getLogger("stoatflow")
_started: weakref.WeakSet[StoatFlow] = weakref.WeakSet()
_wakeup_owners: weakref.WeakSet[StoatFlow] = weakref.WeakSet()
_stop_requested = threading.Event()
_exit_callbacks: list[Callable[[], None]] = []


def started(app: StoatFlow) -> None:
    """Remember an application until it is collected."""
    _started.add(app)


def run_at_exit(act: Callable[[], None]) -> None:
    """Call `act` when the process ends and its applications have ended."""
    _exit_callbacks.append(act)


def running() -> list[StoatFlow]:
    """Return the running applications of this process."""
    return [app for app in _started if app.is_alive()]


def stop_requested() -> bool:
    """Whether a signal has asked this process to stop."""
    return _stop_requested.is_set()


def end_process(code: int) -> None:
    """End the process now, without finalizing anything but logs, streams and temporary directories."""
    bridge.exit_after(code, _FLUSH_S)
    for act in (*_exit_callbacks, logging.shutdown):
        with suppress(BaseException):
            act()
    for stream in (sys.stdout, sys.stderr):
        with suppress(BaseException):
            stream.flush()
    remove_temporary_directories()
    os._exit(code)


@atexit.register
def _at_interpreter_exit() -> None:
    apps = running()
    for app in apps:
        app.abandon()
    left = [app for app in apps if not app.has_ended(ABORT_S) or app.has_left_behind()]
    if left:
        names = ", ".join(str(app.settings.get("application.id")) for app in left)
        _log.error("a function of %s doesn't come back; the process ends without it", names)
    else:
        for act in _exit_callbacks:
            act()
    last = getattr(sys, "last_value", None)
    if left or isinstance(last, StalledError):
        end_process(StalledError.exit_code)
    if isinstance(last, FencedError):
        # A supervisor can be configured not to restart after this exit code.
        end_process(FencedError.exit_code)


@contextmanager
def signals(app: StoatFlow, stop: Callable[[], None]) -> Iterator[None]:
    """Handle SIGINT and SIGTERM in the main thread: the first one calls `stop`, the second one ends the process."""
    owner = os.getpid()
    asked = 0

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if os.getpid() != owner:
            # A forked child of a function: the application isn't its own.
            os._exit(128 + number)
        asked += 1
        name = signal.Signals(number).name
        if asked == 1:
            _log.info("%s: draining and committing; a second one aborts", name)
            _stop_requested.set()
            stop()
            return
        if asked == 2:
            app.abandon()
            if app.has_ended(ABORT_S) and not app.has_left_behind():
                if number == signal.SIGINT:
                    raise KeyboardInterrupt
                raise SystemExit(128 + number)
            _log.error("%s: a function doesn't come back; the process ends without it", name)
        end_process(128 + number)

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        with _last_resort(app):
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


@contextmanager
def _last_resort(app: StoatFlow) -> Iterator[None]:
    """Handle signals even while a function holds the interpreter."""
    resort = app.last_resort()
    if resort is None:
        yield
        return
    os.set_blocking(resort.fileno(), False)
    before = signal.set_wakeup_fd(resort.fileno(), warn_on_full_buffer=False)
    if before != -1:
        # The descriptor of an event loop, which handles the signals itself.
        signal.set_wakeup_fd(before)
    else:
        _wakeup_owners.add(app)
    try:
        yield
    finally:
        if before == -1:
            signal.set_wakeup_fd(-1)
        _wakeup_owners.discard(app)
        resort.close()


def _after_fork() -> None:
    _started.clear()
    if _wakeup_owners:
        # Otherwise signals to the child would count as signals to the application.
        _wakeup_owners.clear()
        signal.set_wakeup_fd(-1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
