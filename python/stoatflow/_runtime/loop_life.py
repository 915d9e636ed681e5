"""One life of an event loop, from before its resources open until they are closed.

Takes calls that threads wait for, gives their results to them. Knows whether the loop ended because it was asked to, or
died: something beside the calls raised `SystemExit` or cancelled all tasks. Owns no thread and no loop. Never lets a
thread wait for a loop that is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any


class EventLoopEndedError(BaseException):
    """The loop is gone before its time. No record's fault, so no `Exception`: no handler is asked about it."""

    def __init__(self) -> None:
        """Say where to look."""
        super().__init__(
            "the event loop has ended: a task beside the calls raised SystemExit or KeyboardInterrupt, or cancelled "
            "all tasks. Next: look for its traceback in the log, and let such a task end by itself"
        )


class Life:
    """One life of a loop: from before its resources open until they are closed."""

    def __init__(self) -> None:
        """Nothing runs yet."""
        # Done when it is to end; cancelled, at once and before any call is, when something else
        # ends the loop.
        self.closing: asyncio.Future[None] | None = None
        # The calls that threads wait for, and where they do.
        self.calls: set[asyncio.Task[Any]] = set()
        self.waiting: set[Future[Any]] = set()

    def close(self) -> None:
        """Let it end, on the loop."""
        if self.closing is not None and not self.closing.done():
            self.closing.set_result(None)

    def has_died(self) -> bool:
        """Did it end before its time?"""
        return self.closing is not None and self.closing.cancelled()

    def ends(self) -> bool:
        """Does it end, asked to or not? What begins now might never be awaited."""
        return self.closing is not None and self.closing.done()

    def begin(self, make: Callable[[], Coroutine[Any, Any, Any]], future: Future[Any]) -> None:
        """Begin a call that a thread waits for, on the loop."""

        def end(task: asyncio.Task[Any]) -> None:
            self.calls.discard(task)
            self.waiting.discard(future)
            if task.cancelled():
                future.cancel()
            elif (error := task.exception()) is not None:
                future.set_exception(error)
            else:
                future.set_result(task.result())

        if self.ends():
            self.waiting.discard(future)
            future.cancel()
            return
        task = asyncio.get_running_loop().create_task(make())
        self.calls.add(task)
        task.add_done_callback(end)
