"""The event loop that runs async functions, and their calls.

Takes coroutine functions with their limits (`stoatflow.asynchronous`), returns callables for the engine. Owns, for each
topology that needs it, one event loop in one thread, started with the first run and stopped with the last, and its
calls and resources. The engine decides order and parking; time limits, retries and replacements of failed results are
decided here. Never calls a plain function.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import CancelledError as Cancelled
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from stoatflow._runtime.loop_lifecycle import EventLoopEndedError, LoopLifecycle
from stoatflow.asynchronous import Awaiting

if TYPE_CHECKING:
    from stoatflow.plan import EncodedPlan
    from stoatflow.resources import Resource

_CLOSING_S = 10.0
_log = logging.getLogger("stoatflow")


class NativeCall(Protocol):
    """A call as the engine passes it."""

    line: int

    def arguments(self) -> tuple[Any, ...]:
        """Return the function's arguments."""

    def done(self, result: object, took_s: float, waited_s: float) -> NativeCall | None:
        """Report the result; return the next call. `took_s` is the total time, `waited_s` the time in the queue."""

    def failed(self, error: BaseException, took_s: float, waited_s: float) -> NativeCall | None:
        """Report an exception; otherwise as `done`."""


class Tally:
    """Counts calls that the engine doesn't see. This one counts nothing; the engine's own replaces it in a plan."""

    def began(self) -> None:
        """A call begins, and a lane waits for it."""

    def ended(self, failed: bool) -> None:  # the engine's own uses it
        """The call has ended."""

    def timed_out(self) -> None:
        """An attempt exceeded its time limit."""

    def retried(self) -> None:
        """Another attempt is made."""


class _ExpiredError(TimeoutError):
    """A time limit of this module, not an error of the function."""


class Caller:
    """One async function on its event loop: called by the engine, many at a time, or by a thread that waits for it."""

    def __init__(self, loop: EventLoop, awaiting: Awaiting[Any, Any], display: str) -> None:
        """Created by `EventLoop.caller`."""
        self._loop = loop
        self._awaiting = awaiting
        self._display = display
        self._waiting: deque[tuple[NativeCall, float]] = deque()
        self._running: dict[asyncio.Task[None], int] = {}
        self._pausing: dict[int, tuple[asyncio.TimerHandle, list[NativeCall]]] = {}
        self._tally = Tally()

    def __call__(self, *arguments: Any) -> Any:
        """Run one call on the loop and wait for its end; releases the interpreter meanwhile."""
        failed = True
        self._tally.began()
        try:
            result, leaving = self._loop.run(partial(self._guarded, arguments)).result()
            failed = leaving is not None
        except Cancelled:
            raise self._loop.cancellation_error(self._display) from None
        finally:
            self._tally.ended(failed)
        if leaving is not None:
            raise leaving
        return result

    # Called by the engine, from any thread.

    def count_in(self, tally: Tally) -> None:
        """Set where calls are counted."""
        self._tally = tally

    def submit(self, calls: list[NativeCall], pause_s: float) -> None:
        """Start these calls, all of one lane, after a pause."""
        self._loop.call_soon(self._take, calls, pause_s)

    def cancel(self, line: int) -> None:
        """Cancel the calls of a lane that has ended."""
        self._loop.call_soon(self._give_up, line)

    # Called on the loop.

    def reset(self) -> None:
        """Drop the calls of an earlier loop: a new one has started."""
        self._waiting, self._running, self._pausing = deque(), {}, {}

    def running(self) -> tuple[asyncio.Task[None], ...]:
        """Return the tasks of the running calls."""
        return tuple(self._running)

    def abandon(self) -> None:
        """Fail the calls that are queued or paused: the loop ends early."""
        gone = self._loop.cancellation_error(self._display)
        calls = [call for call, _ in self._waiting]
        for timer, paused in self._pausing.values():
            timer.cancel()
            calls.extend(paused)
        self._waiting, self._pausing = deque(), {}
        for call in calls:
            call.failed(gone, 0.0, 0.0)

    def _take(self, calls: list[NativeCall], pause_s: float) -> None:
        loop = asyncio.get_running_loop()
        if pause_s > 0:
            self._pausing[id(calls)] = (loop.call_later(pause_s, self._take, calls, 0.0), calls)
            return
        self._pausing.pop(id(calls), None)
        now = loop.time()
        self._waiting.extend((call, now) for call in calls)
        self._fill()

    def _fill(self) -> None:
        if self._loop.ends():
            self.abandon()
            return
        loop = asyncio.get_running_loop()
        while self._waiting and len(self._running) < self._awaiting.concurrency:
            call, began = self._waiting.popleft()
            self._running[loop.create_task(self._supervise(call, began))] = call.line

    def _give_up(self, line: int) -> None:
        for number, (timer, calls) in tuple(self._pausing.items()):
            if calls[0].line == line:
                timer.cancel()
                del self._pausing[number]
        self._waiting = deque(each for each in self._waiting if each[0].line != line)
        for task, of in tuple(self._running.items()):
            if of == line:
                # A task that has not begun yet would never report that it has ended.
                del self._running[task]
                task.cancel()
        self._fill()

    async def _supervise(self, call: NativeCall, began: float) -> None:
        loop = asyncio.get_running_loop()
        waited_s = loop.time() - began
        try:
            result = await self._attempts(call.arguments())
        except asyncio.CancelledError:
            gone = self._loop.cancellation_error(self._display)
            following = call.failed(gone, loop.time() - began, waited_s)
        except BaseException as error:  # a SystemExit is for the application, but would end the loop here
            following = call.failed(error, loop.time() - began, waited_s)
        else:
            following = call.done(result, loop.time() - began, waited_s)
        if not self._loop.is_on(loop):
            return
        task = asyncio.current_task()
        if task is not None:
            self._running.pop(task, None)
        if following is not None:
            self._waiting.append((following, loop.time()))
        self._fill()

    async def _guarded(self, arguments: tuple[Any, ...]) -> tuple[Any, BaseException | None]:
        """Return an exception that would end the loop to the waiting thread, instead of raising it."""
        try:
            return await self._attempts(arguments), None
        except (SystemExit, KeyboardInterrupt) as leaving:
            return None, leaving

    async def _attempts(self, arguments: tuple[Any, ...]) -> Any:
        how = self._awaiting
        failed = 0
        while True:
            try:
                return await self._once(arguments)
            except Exception as error:  # noqa: PERF203  # a failed call is tried again
                failed += 1
                if isinstance(error, _ExpiredError):
                    self._tally.timed_out()
                if how.retry is not None and failed < how.retry.attempts and isinstance(error, how.retry.on):
                    self._tally.retried()
                    await asyncio.sleep(how.retry.pause_s(failed))
                    continue
                if how.on_timeout is not None and isinstance(error, _ExpiredError):
                    return await _settled(how.on_timeout(arguments[-1]))
                if how.on_error is not None:
                    return await _settled(how.on_error(arguments[-1], error))
                raise

    async def _once(self, arguments: tuple[Any, ...]) -> Any:
        limit = self._awaiting.timeout_s
        if limit is None:
            return await _settled(self._awaiting.function(*arguments))
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        expired = False

        def expire() -> None:
            nonlocal expired
            expired = True
            task.cancel()

        # One timer is cheaper than the extra task of `asyncio.wait_for`.
        timer = asyncio.get_running_loop().call_later(limit, expire)
        try:
            return await _settled(self._awaiting.function(*arguments))
        except asyncio.CancelledError:
            if not expired:
                raise
            raise _ExpiredError(f"{self._display} did not end within {limit:g} s") from None
        finally:
            timer.cancel()
            if expired and hasattr(task, "uncancel"):
                task.uncancel()


def on_event_loop(encoded: EncodedPlan, resources: Sequence[Resource[Any]]) -> tuple[EncodedPlan, EventLoop]:
    """Return the plan with its async functions on an event loop of their own."""
    loop = EventLoop(resources)
    named = zip(encoded.functions, encoded.function_names, strict=True)
    functions = tuple(loop.caller(fn, name) if isinstance(fn, Awaiting) else fn for fn, name in named)
    return replace(encoded, functions=functions), loop


async def _settled(made: Any) -> Any:
    if inspect.isawaitable(made):
        return await made
    if isinstance(made, AsyncIterator):
        return [item async for item in made]
    return made


class EventLoop:
    """The event loop of a topology: a thread that lives while an application runs the topology."""

    def __init__(self, resources: Sequence[Resource[Any]] = ()) -> None:
        """Start nothing yet."""
        self._resources = tuple(resources)
        self._callers: list[Caller] = []
        self._lock = threading.Lock()
        # Held for moments only, also by the loop's thread: `_lock` is held while waiting for that thread.
        self._turn = threading.Lock()
        self._users = 0
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._life: LoopLifecycle | None = None

    def caller(self, awaiting: Awaiting[Any, Any], display: str) -> Caller:
        """Return a callable that runs this function on the loop."""
        made = Caller(self, awaiting, display)
        self._callers.append(made)
        return made

    def acquire(self) -> None:
        """Begin a run; the first one starts the thread and opens the resources. Raises what they raise."""
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            opened: Future[None] = Future()
            self._thread = threading.Thread(target=self._main, args=(opened,), name="stoatflow-event-loop", daemon=True)
            self._thread.start()
            try:
                opened.result()
            except BaseException:
                self._users -= 1
                raise

    def release(self) -> None:
        """End a run; the last one closes the resources, in reverse order, and ends the thread."""
        with self._lock:
            self._users -= 1
            if self._users > 0 or self._thread is None:
                return
            loop, life = self._loop, self._life
            if loop is not None and life is not None:
                # A loop that has died is closed already, or about to be.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(life.close)
            self._thread.join(_CLOSING_S)
            if self._thread.is_alive():
                _log.warning("the event loop is still closing its resources after %g s; going on without", _CLOSING_S)
            self._thread = None

    def run(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> Future[Any]:
        """Start a coroutine on the loop, from another thread.

        The coroutine is also created there: a loop that ends at this moment leaves no coroutine that was never awaited.
        """
        loop, life = self._loop, self._life
        if loop is None or life is None or threading.current_thread() is self._thread:
            if loop is None:
                self._raise_if_died()
            where = "on the event loop itself" if loop is not None else "while no application runs"
            raise RuntimeError(f"an async function was called {where}. Next: await its .function")
        future: Future[Any] = Future()
        life.waiting.add(future)
        try:
            loop.call_soon_threadsafe(life.begin, make, future)
        except RuntimeError:
            # The loop was closed just now.
            future.cancel()
        return future

    def call_soon(self, what: Callable[..., object], *arguments: object) -> None:
        """Call a function on the loop soon; raises if the loop has ended."""
        loop = self._loop
        if loop is None:
            self._raise_if_died()
            raise RuntimeError("the event loop does not run")
        loop.call_soon_threadsafe(what, *arguments)

    def has_died(self) -> bool:
        """Whether the loop ended without being asked to."""
        return self._life is not None and self._life.has_died()

    def ends(self) -> bool:
        """Whether the loop has ended, or is about to."""
        return self._life is not None and self._life.ends()

    def cancellation_error(self, display: str) -> BaseException:
        """Return the error of a cancelled call of this function."""
        if self.has_died():
            return EventLoopEndedError()
        return RuntimeError(f"the call of {display} was cancelled: by itself, or because the application stops")

    def _raise_if_died(self) -> None:
        if self.has_died():
            raise EventLoopEndedError

    def is_on(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether `loop` is the current one, and not an older one that took too long to end."""
        return self._loop is loop

    def cancel(self) -> None:
        """Cancel all calls of a run that nothing waits for any more.

        Does nothing while other runs use the loop: lanes that end cancel their own calls, and a lane that waits for a
        call waits no longer than its time limit.
        """
        if (loop := self._loop) is not None and self._users == 1:
            loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        """Cancel calls, but no task of a resource: it may have to send the rest of its data when it is closed."""
        for task in self._calls():
            task.cancel()

    def _calls(self) -> set[asyncio.Task[Any]]:
        own = set() if self._life is None else set(self._life.calls)
        return own.union(*(caller.running() for caller in self._callers))

    def _main(self, opened: Future[None]) -> None:
        life = LoopLifecycle()
        try:
            asyncio.run(self._live(life, opened))
        except BaseException as error:  # raised where the thread was started
            if not opened.done():
                opened.set_exception(error)
            elif life.has_died():
                _log.error("the event loop has ended: no async function can be called any more", exc_info=error)
            else:
                _log.warning("the event loop ended with an error", exc_info=error)
        finally:
            # A future added at the last moment would never complete. `copy()`, not `tuple()`: other threads
            # add to the set, and without a GIL only `copy` is atomic.
            for future in life.waiting.copy():
                future.cancel()

    async def _live(self, life: LoopLifecycle, opened: Future[None]) -> None:
        # Resources open and close in this one task: cancel scopes of their libraries require it.
        life.closing = asyncio.get_running_loop().create_future()
        with self._turn:
            self._life = life
        try:
            async with AsyncExitStack() as stack:
                for resource in self._resources:
                    await resource.open(stack)
                for caller in self._callers:
                    caller.reset()
                self._loop = asyncio.get_running_loop()
                opened.set_result(None)
                try:
                    await life.closing
                except asyncio.CancelledError:
                    for caller in self._callers:
                        caller.abandon()
                    raise
                # Cancelled calls use their resources until they have ended. Anything else that runs is
                # cancelled when the resources are closed.
                calls = self._calls() if self._life is life else life.calls
                for task in calls:
                    task.cancel()
                if calls:
                    await asyncio.wait(calls, timeout=_CLOSING_S / 2)
        finally:
            with self._turn:
                # If this thread took too long to close, it has been replaced, and the open resources are its
                # successor's.
                if self._life is life:
                    self._loop = None
                    for resource in self._resources:
                        resource.forget()
