"""Calls of a worker's function.

Takes the bytes of a request, returns those of its answer, or the error. Owns a pool of threads for a plain function: a
call that was abandoned keeps its thread, and counts as running, until it ends. No exception of a function ends the
event loop.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from stoatflow.asynchronous import is_async
from stoatflow.serdes import Serde

_log = logging.getLogger("stoatflow")


class Calls:
    """Calls a function, at most `concurrency` at a time, each with a time limit."""

    def __init__(
        self,
        function: Callable[[Any], Any],
        serdes: tuple[Serde[Any], Serde[Any]],
        concurrency: int,
        timeout_s: float | None,
        aborting: threading.Event,
    ) -> None:
        """`serdes`: those of requests and answers. With `aborting` set, exceptions like SystemExit end the worker."""
        self._function = function
        self._value, self._answer = serdes
        self._concurrency = concurrency
        self._timeout_s = timeout_s
        self._aborting = aborting
        self._threads = None if is_async(function) else ThreadPoolExecutor(concurrency, "stoatflow-worker-call")
        self._told = False
        self.overdue: set[asyncio.Future[Any]] = set()
        """Plain calls that exceeded their time limit and still run."""

    def room(self, running: int) -> int:
        """Return how many more calls may start while `running` calls run."""
        full = len(self.overdue) >= self._concurrency
        if full and not self._told:
            _log.warning(
                "all %d threads are busy with calls of %s that are over their time: others begin when one ends",
                self._concurrency, self._function,
            )  # fmt: skip
        self._told = full
        return self._concurrency - running - len(self.overdue)

    def close(self) -> None:
        """Release the threads; running calls continue."""
        for thread in self.overdue:
            thread.cancel()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def call(self, data: bytes | None) -> tuple[bytes | None, BaseException | None]:
        """Return the answer, or the exception raised instead."""
        try:
            value = None if data is None else self._value.deserialize(data)
            answer = await self._in_time(self._awaited(value) if self._threads is None else self._in_thread(value))
            if isinstance(answer, _Exited):
                return None, answer.error
            return (None if answer is None else self._answer.serialize(answer)), None
        except BaseException as error:
            if not isinstance(error, Exception) and (self._aborting.is_set() or isinstance(error, KeyboardInterrupt)):
                raise
            return None, error

    async def _in_time(self, made: Awaitable[Any]) -> Any:
        try:
            return await asyncio.wait_for(made, self._timeout_s)
        except asyncio.TimeoutError as error:
            if self._timeout_s is None or str(error):
                raise
            raise TimeoutError(f"the call did not end within {self._timeout_s:g} s") from None

    async def _awaited(self, value: object) -> Any:
        try:
            return await self._function(value)
        except SystemExit as error:  # it would end the event loop; the one of a second signal does
            if self._aborting.is_set():
                raise
            return _Exited(error)

    async def _in_thread(self, value: object) -> Any:
        thread = asyncio.get_running_loop().run_in_executor(self._threads, self._plain, value)
        try:
            return await asyncio.shield(thread)
        finally:
            if not thread.done():
                self.overdue.add(thread)
                thread.add_done_callback(self._returned)

    def _plain(self, value: object) -> Any:
        try:
            return self._function(value)
        except StopIteration as error:  # a future can't hold it
            raise RuntimeError(f"the function raised StopIteration: {error}") from error
        except SystemExit as error:
            return _Exited(error)

    def _returned(self, thread: asyncio.Future[Any]) -> None:
        self.overdue.discard(thread)
        if not thread.cancelled():
            thread.exception()  # retrieved here, or asyncio warns


class _Exited(NamedTuple):
    """An exception that must not leave a task."""

    error: SystemExit
