"""The lifetime of one event loop, from before its resources open until they are closed.

Runs calls that threads wait for and hands them the results. Knows whether the loop was asked to end, or died: something
other than the calls raised `SystemExit` or cancelled all tasks. Owns no thread and no loop. Never lets a thread wait
for a loop that has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any


class EventLoopEndedError(BaseException):
    """The loop ended early. No record is at fault, so this is no `Exception`: no error handler is called."""

    def __init__(self) -> None:
        """Create the error, with a message that names where to look."""
        super().__init__(
            "the event loop has ended: a task beside the calls raised SystemExit or KeyboardInterrupt, or cancelled "
            "all tasks. Next: look for its traceback in the log, and let such a task end by itself"
        )


class LoopLifecycle:
    """The lifetime of one loop, from before its resources open until they are closed."""

    def __init__(self) -> None:
        """Nothing runs yet."""
        # Completed when the loop is to end; cancelled, at once and before any call is, when something else
        # ends the loop.
        self.closing: asyncio.Future[None] | None = None
        # The calls that threads wait for, and the futures on which they wait.
        self.calls: set[asyncio.Task[Any]] = set()
        self.waiting: set[Future[Any]] = set()

    def close(self) -> None:
        """End the loop; called on the loop."""
        if self.closing is not None and not self.closing.done():
            self.closing.set_result(None)

    def has_died(self) -> bool:
        """Whether the loop ended early."""
        return self.closing is not None and self.closing.cancelled()

    def ends(self) -> bool:
        """Whether the loop is ending, asked to or not. A call that starts now might never be awaited."""
        return self.closing is not None and self.closing.done()

    def begin(self, make: Callable[[], Coroutine[Any, Any, Any]], future: Future[Any]) -> None:
        """Start a call that a thread waits for; called on the loop."""

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
