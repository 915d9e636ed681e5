"""The engine's log lines in Python's `logging`, and the current record and function in each line that a function logs.

Takes lines of the engine in a thread of its own; emits `LogRecord`s. Never blocks the engine.
"""

from __future__ import annotations

import json
import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal

from stoatflow._runtime import bridge
from stoatflow._runtime.process_exit import run_at_exit, running

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LogContext", "configure_logging"]

FIELDS: Final = ("application", "lane", "epoch", "function", "node", "topic", "partition", "offset")
"""Attributes that a line may have."""
_LANE = "stoatflow-lane-"
_USUAL = "warn,stoatflow::hint=info,stoatflow::settings=info,stoatflow::start=info"
_LEVELS = {"TRACE": logging.DEBUG, "DEBUG": logging.DEBUG, "INFO": logging.INFO, "WARN": logging.WARNING}
_QUIET_S = 0.5
"""How long the thread waits for a line before it checks whether it should end."""


class LogContext(logging.Filter):
    """Adds `application`, `lane`, `epoch`, `function`, `node`, `topic`, `partition` and `offset` to log records.

    Add it to the handler that formats them: `handler.addFilter(LogContext())`. It describes what the logging thread is
    doing at that moment, so for a handler that formats in another thread, add it before the queue.

    >>> import logging
    >>> record = logging.makeLogRecord({"msg": "outside of all lanes"})
    >>> sf.LogContext().filter(record), record.lane
    (True, '-')
    """

    def __init__(self, missing: object = "-") -> None:
        """`missing` is used where a value isn't known, such as outside of a function."""
        super().__init__()
        self._missing = missing

    def filter(self, record: logging.LogRecord) -> bool:
        """Add missing attributes; let the record pass.

        >>> import logging
        >>> record = logging.makeLogRecord({"msg": "of a client", "topic": "orders"})
        >>> sf.LogContext(missing="?").filter(record), record.topic, record.partition
        (True, 'orders', '?')
        """
        known = {} if hasattr(record, "application") else _activity(record.thread)
        for name in FIELDS:
            if not hasattr(record, name):
                value = known.get(name)
                setattr(record, name, self._missing if value is None else value)
        return True


def configure_logging(to: Literal["python", "stderr"] = "python", level: int | str | None = None) -> None:
    """Send the engine's log lines to Python's `logging`, or back to standard error.

    Lines go to loggers below `stoatflow`, with their fields as attributes. Without a `level` the current level of the
    logger `stoatflow` applies; the variable `RUST_LOG` takes precedence over both. May be called again, at any time.

    >>> import logging
    >>> sf.configure_logging(level="WARNING")
    >>> logging.getLogger("stoatflow").isEnabledFor(logging.WARNING)
    True
    >>> sf.configure_logging("stderr")
    """
    if to not in {"python", "stderr"}:
        raise ValueError(f"log lines can't go to {to!r}. Next: write 'python' or 'stderr'")
    if level is None:
        level = logging.getLogger("stoatflow").getEffectiveLevel() if to == "python" else logging.WARNING
    bridge.log_to(_filter(level), to == "python")
    if to == "python":
        _delivery.start()
    else:
        _delivery.stop()


def _filter(level: int | str) -> str:
    """Return the engine's filter for a level of `logging`."""
    number = logging.getLevelName(level.upper()) if isinstance(level, str) else level
    if not isinstance(number, int):
        raise TypeError(f"{level!r} is no level of logging. Next: write DEBUG, INFO, WARNING or ERROR")
    if number > logging.WARNING:
        return "error,stoatflow::kafka=off"
    if number > logging.INFO:
        return f"{_USUAL},stoatflow::kafka=off"
    word = "info" if number > logging.DEBUG else "debug"
    # At `info`, libraries below the engine log what matters only to them.
    return f"warn,stoatflow={word},stoatflow::kafka={'off' if word == 'info' else 'debug'}"


def _activity(thread: int | None) -> Mapping[str, Any]:
    """Return what a thread is doing for an application."""
    apps = running()
    for app in apps:
        found = None if thread is None else app.thread_activity(thread)
        if found is not None:
            return {**found, "application": app.settings.get("application.id")}
    return {"application": apps[0].settings.get("application.id")} if len(apps) == 1 else {}


class _Delivery:
    """The thread that emits lines, one at a time and in order."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._wanted = False
        self._turn = threading.Lock()

    def start(self) -> None:
        self._wanted = True
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="stoatflow-log", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Emit the remaining lines."""
        self._wanted = False
        self.hand_over(0)

    def _run(self) -> None:
        while self._wanted:
            self.hand_over(_QUIET_S)

    def hand_over(self, wait_s: float) -> None:
        lines = bridge.take_log_lines(wait_s)
        with self._turn:
            for line in lines:
                # A handler that fails must not stop later lines.
                with suppress(Exception):
                    _emit(json.loads(line))


def _emit(line: dict[str, Any]) -> None:
    target = line["target"].replace("::", ".")
    logger = logging.getLogger(f"stoatflow.{target.removeprefix('stoatflow').lstrip('_.')}".rstrip("."))
    level = _LEVELS.get(line["level"], logging.ERROR)
    if not logger.isEnabledFor(level):
        return
    fields: dict[str, Any] = line["fields"]
    text = " ".join([line["message"], *(f"{key}={value}" for key, value in fields.items())])
    record = logger.makeRecord(logger.name, level, "(engine)", 0, text, (), None)
    seconds, record.msecs = divmod(line["timestamp_ms"], 1000)
    record.created = seconds + record.msecs / 1000
    record.threadName = thread = line["thread"] or "stoatflow"
    record.thread = None
    if thread.startswith(_LANE):
        record.__dict__["lane"] = int(thread.removeprefix(_LANE))
    record.__dict__ |= {key: value for key, value in fields.items() if key in FIELDS}
    record.__dict__["fields"] = fields
    logger.handle(record)


_delivery = _Delivery()


def _restore_stderr() -> None:
    if _delivery._wanted:
        configure_logging("stderr")


# Applications that were not closed log until the end of the process.
run_at_exit(_restore_stderr)
