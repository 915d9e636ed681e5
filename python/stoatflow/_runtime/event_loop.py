"""The event loop that runs async functions, and their calls.

Takes coroutine functions with their limits (`stoatflow.asynchronous`), gives what the engine calls. Owns one event loop
in one thread for each topology that needs it, opened with the first run and closed with the last, and what lives on it:
calls and resources. Order and parking are the engine's; time limits, retries and what replaces a failed result are
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

from stoatflow._runtime.loop_life import EventLoopEndedError, Life
from stoatflow.asynchronous import Awaiting

if TYPE_CHECKING:
    from stoatflow.plan import EncodedPlan
    from stoatflow.resources import Resource

_CLOSING_S = 10.0
_log = logging.getLogger("stoatflow")


class NativeCall(Protocol):
    """A call as the engine hands it over."""

    line: int

    def arguments(self) -> tuple[Any, ...]:
        """Give what the function gets."""

    def done(self, result: object, took_s: float, waited_s: float) -> NativeCall | None:
        """Answer; gives the call that may begin now. `took_s` is all of its time, `waited_s` that before its turn."""

    def failed(self, error: BaseException, took_s: float, waited_s: float) -> NativeCall | None:
        """Answer with an exception, likewise."""


class Tally:
    """Where what the engine doesn't see is counted: here nowhere, in a plan by the engine's own."""

    def began(self) -> None:
        """A call begins that a lane waits for."""

    def ended(self, failed: bool) -> None:  # the engine's own asks
        """It has ended."""

    def timed_out(self) -> None:
        """An attempt did not end in its time."""

    def retried(self) -> None:
        """There is another attempt."""


class _ExpiredError(TimeoutError):
    """Our own time limit, not one of the function's."""


class Caller:
    """One async function on its loop: calls from the engine, many at a time, or from a thread that waits."""

    def __init__(self, loop: EventLoop, awaiting: Awaiting[Any, Any], display: str) -> None:
        """Made by `EventLoop.caller`."""
        self._loop = loop
        self._awaiting = awaiting
        self._display = display
        self._waiting: deque[tuple[NativeCall, float]] = deque()
        self._running: dict[asyncio.Task[None], int] = {}
        self._pausing: dict[int, tuple[asyncio.TimerHandle, list[NativeCall]]] = {}
        self._tally = Tally()

    def __call__(self, *arguments: Any) -> Any:
        """Run it to its end on the loop, and wait for that; releases the interpreter meanwhile."""
        failed = True
        self._tally.began()
        try:
            result, leaving = self._loop.run(partial(self._guarded, arguments)).result()
            failed = leaving is not None
        except Cancelled:
            raise self._loop.why_cancelled(self._display) from None
        finally:
            self._tally.ended(failed)
        if leaving is not None:
            raise leaving
        return result

    # What the engine calls, from any thread.

    def count_in(self, tally: Tally) -> None:
        """Hear where to count."""
        self._tally = tally

    def submit(self, calls: list[NativeCall], pause_s: float) -> None:
        """Begin these, which are all of one lane, after a pause."""
        self._loop.soon(self._take, calls, pause_s)

    def cancel(self, line: int) -> None:
        """Give up the calls of a lane that is gone."""
        self._loop.soon(self._give_up, line)

    # On the loop.

    def begin_anew(self) -> None:
        """There is a new loop: calls of an earlier loop are dropped."""
        self._waiting, self._running, self._pausing = deque(), {}, {}

    def running(self) -> tuple[asyncio.Task[None], ...]:
        """Give the tasks of its calls."""
        return tuple(self._running)

    def abandon(self) -> None:
        """The loop ends before its time: what waits for its turn here must be told."""
        gone = self._loop.why_cancelled(self._display)
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
            self._running[loop.create_task(self._attend(call, began))] = call.line

    def _give_up(self, line: int) -> None:
        for number, (timer, calls) in tuple(self._pausing.items()):
            if calls[0].line == line:
                timer.cancel()
                del self._pausing[number]
        self._waiting = deque(each for each in self._waiting if each[0].line != line)
        for task, of in tuple(self._running.items()):
            if of == line:
                # One that has not begun yet would never say that it has ended.
                del self._running[task]
                task.cancel()
        self._fill()

    async def _attend(self, call: NativeCall, began: float) -> None:
        loop = asyncio.get_running_loop()
        waited_s = loop.time() - began
        try:
            result = await self._attempts(call.arguments())
        except asyncio.CancelledError:
            gone = self._loop.why_cancelled(self._display)
            following = call.failed(gone, loop.time() - began, waited_s)
        except BaseException as error:  # SystemExit is the application's, but would end the loop here
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
        """Give what would end the loop for everybody to the thread that waits."""
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
            except Exception as error:  # noqa: PERF203  # a call that failed is tried again
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

        # One timer, and no task of its own as `asyncio.wait_for` has one.
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
    """Give the plan with its async functions on a loop of their own."""
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
    """The event loop of a topology: a thread that lives while an application runs it."""

    def __init__(self, resources: Sequence[Resource[Any]] = ()) -> None:
        """Start nothing yet."""
        self._resources = tuple(resources)
        self._callers: list[Caller] = []
        self._lock = threading.Lock()
        # Held for moments only, by the thread too: `_lock` is held while that is waited for.
        self._turn = threading.Lock()
        self._users = 0
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._life: Life | None = None

    def caller(self, awaiting: Awaiting[Any, Any], display: str) -> Caller:
        """Give what calls this function here."""
        made = Caller(self, awaiting, display)
        self._callers.append(made)
        return made

    def acquire(self) -> None:
        """A run begins: with the first one the thread starts and the resources open. Raises what they raise."""
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
        """A run has ended: with the last one the resources close, in the reverse order, and the thread ends."""
        with self._lock:
            self._users -= 1
            if self._users > 0 or self._thread is None:
                return
            loop, life = self._loop, self._life
            if loop is not None and life is not None:
                # One that has died is closed already, or about to be.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(life.close)
            self._thread.join(_CLOSING_S)
            if self._thread.is_alive():
                _log.warning("the event loop is still closing its resources after %g s; going on without", _CLOSING_S)
            self._thread = None

    def run(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> Future[Any]:
        """Begin something there, from another thread.

        It is made there too: a loop that ends at this moment leaves no coroutine that was never awaited.
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
            # It was closed this moment.
            future.cancel()
        return future

    def soon(self, what: Callable[..., object], *arguments: object) -> None:
        """Call something there soon; raises if it has ended."""
        loop = self._loop
        if loop is None:
            self._raise_if_died()
            raise RuntimeError("the event loop does not run")
        loop.call_soon_threadsafe(what, *arguments)

    def has_died(self) -> bool:
        """Did it end without being asked to?"""
        return self._life is not None and self._life.has_died()

    def ends(self) -> bool:
        """Is it over, or about to be?"""
        return self._life is not None and self._life.ends()

    def why_cancelled(self, display: str) -> BaseException:
        """Give what a call of this function failed with that was cancelled."""
        if self.has_died():
            return EventLoopEndedError()
        return RuntimeError(f"the call of {display} was cancelled: by itself, or because the application stops")

    def _raise_if_died(self) -> None:
        if self.has_died():
            raise EventLoopEndedError

    def is_on(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Is it this one, and none that took too long to end?"""
        return self._loop is loop

    def cancel(self) -> None:
        """Cancel all calls of a run that are not waited for any more.

        Beside other runs of the topology nothing is done: lanes that end give their own calls up, and a lane that waits
        for one has the time limit of that.
        """
        if (loop := self._loop) is not None and self._users == 1:
            loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        """Cancel calls, and no task of a resource's: that may have to send what is left when it is closed."""
        for task in self._calls():
            task.cancel()

    def _calls(self) -> set[asyncio.Task[Any]]:
        own = set() if self._life is None else set(self._life.calls)
        return own.union(*(caller.running() for caller in self._callers))

    def _main(self, opened: Future[None]) -> None:
        life = Life()
        try:
            asyncio.run(self._live(life, opened))
        except BaseException as error:  # raised where it was started
            if not opened.done():
                opened.set_exception(error)
            elif life.has_died():
                _log.error("the event loop has ended: no async function can be called any more", exc_info=error)
            else:
                _log.warning("the event loop ended with an error", exc_info=error)
        finally:
            # Who asked at the last moment would wait for ever.
            # A copy, not a tuple: other threads add to it, and without a GIL only a copy is made in one go.
            for future in life.waiting.copy():
                future.cancel()

    async def _live(self, life: Life, opened: Future[None]) -> None:
        # Resources open and close in this one task: cancel scopes of their libraries want that.
        life.closing = asyncio.get_running_loop().create_future()
        with self._turn:
            self._life = life
        try:
            async with AsyncExitStack() as stack:
                for resource in self._resources:
                    await resource.open(stack)
                for caller in self._callers:
                    caller.begin_anew()
                self._loop = asyncio.get_running_loop()
                opened.set_result(None)
                try:
                    await life.closing
                except asyncio.CancelledError:
                    for caller in self._callers:
                        caller.abandon()
                    raise
                # Calls that are cancelled use their resources until they have ended. Whatever else runs is
                # cancelled when the resources are closed.
                calls = self._calls() if self._life is life else life.calls
                for task in calls:
                    task.cancel()
                if calls:
                    await asyncio.wait(calls, timeout=_CLOSING_S / 2)
        finally:
            with self._turn:
                # A thread that took too long to close has been replaced: what is open now is its successor's.
                if self._life is life:
                    self._loop = None
                    for resource in self._resources:
                        resource.forget()
