"""A worker for an `offload`: requests come from one topic, answers go to another.

Takes a function, plain or async, and two topics; gives an answer for each request, with the request's key and its
correlation. Owns a reader, a writer, an event loop, and a pool of threads for a plain function. Positions are committed
behind acknowledged answers: after a crash a request may be answered again, which the `offload` drops. Never ends
because a function raises: that is an answer, too.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
import threading
import typing
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from stoatflow.asynchronous import is_async
from stoatflow.durations import Duration, duration_ms
from stoatflow.errors import ConfigError
from stoatflow.offload import ATTEMPT, CORRELATION, ERROR
from stoatflow.serdes import Serde, SerdeLike, Serdes, resolve
from stoatflow.settings import Settings, as_settings

if TYPE_CHECKING:
    from stoatflow._bridge import WorkerClient
    from stoatflow.embedded import EmbeddedBroker

_POLL_S = 0.1
_COMMIT_S = 0.5
_CLOSING_S = 30.0
_BY_TYPE: dict[object, Serde[Any]] = {str: Serdes.string(), bytes: Serdes.bytes()}
_log = logging.getLogger("stoatflow")


class _Request(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Worker:
    """Answers the requests of an `offload`.

    `Worker(score, requests="score-requests", responses="score-responses", bootstrap_servers="localhost:9092").run()`
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        *,
        requests: str,
        responses: str,
        config: Settings | Mapping[str, object] | None = None,
        broker: EmbeddedBroker | None = None,
        group: str | None = None,
        value: SerdeLike[Any] | None = None,
        answer: SerdeLike[Any] | None = None,
        concurrency: int | None = None,
        timeout: Duration | None = None,
        share: tuple[int, int] = (1, 1),
        **settings: object,
    ) -> None:
        """Check everything and start nothing.

        `group` names the worker's position in the requests (`<requests>-worker` if left out). `value` and `answer` say
        how requests are read and answers written; left out, the function's annotations do (`str` and `bytes`; else
        JSON). `concurrency` calls run at a time (100 of an async function, 10 of a plain one), each at most
        `timeout`. `share=(1, 3)`: this is the first of three workers, and reads a third of the partitions.
        """
        if not callable(function):
            raise ConfigError(
                f"a worker needs a function, not {type(function).__name__}", next_step="pass a function of (value)"
            )
        self._function = function
        self._is_async = is_async(function)
        usual = 100 if self._is_async else 10
        self._concurrency = usual if concurrency is None else concurrency
        if isinstance(self._concurrency, bool) or not isinstance(self._concurrency, int) or self._concurrency < 1:
            raise ConfigError(
                f"concurrency={concurrency!r} would never begin a call", next_step="give a whole number of at least 1"
            )
        own, of = share
        if not 1 <= own <= of:
            raise ConfigError(
                f"share={share!r} is no share: there is no worker {own} of {of}",
                next_step="write (1, 3) for the first of three workers",
            )
        self._share = (own - 1, of)
        annotations = _annotations(function)
        self._value = _serde(value, annotations[0])
        self._answer = _serde(answer, annotations[1])
        self._timeout_s = None if timeout is None else duration_ms(timeout) / 1000
        self._topics = (requests, responses)
        self.settings = as_settings(config, settings).with_defaults(
            {"application.id": f"{requests}-worker" if group is None else group}
        )
        if group is not None and self.settings.get("application.id") != group:
            raise ConfigError(
                f"group is {group}, but application.id is {self.settings.get('application.id')}",
                next_step="leave one of them out",
            )
        if broker is not None:
            self.settings = self.settings.with_defaults({"bootstrap.servers": f"embedded:{broker.path}"})
        self.settings.check()
        self._broker = broker
        self._stopping = threading.Event()
        self._aborting = False
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self.answered = 0
        """Requests that were answered, errors too."""

    def run(self) -> None:
        """Answer requests until it is stopped. Raises what the broker fails with.

        In the main thread, the first SIGINT or SIGTERM lets calls that run end and commits, the second one aborts.
        """
        client = self._open()
        try:
            with self._signals():
                asyncio.run(self._work(client))
        finally:
            client.close()

    def start(self) -> None:
        """Run in a thread of its own; returns when it reads its topics."""
        if self._thread is not None:
            raise RuntimeError("this Worker was started before. Next: make a new one")
        client = self._open()
        self._thread = threading.Thread(
            target=self._run_in_thread, args=(client,), name="stoatflow-worker", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Let calls that run end, commit, and stop. Raises what it failed with."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Worker:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop; its own error is raised unless another one is under way."""
        try:
            self.stop()
        except BaseException:
            if error is None:
                raise

    # Inside ----------------------------------------------------------------------------------

    def _open(self) -> WorkerClient:
        from stoatflow import _bridge

        native = None if self._broker is None else self._broker.native
        try:
            client = _bridge.WorkerClient(self.settings.pairs(), *self._topics, *self._share, native)
        except ConfigError as error:
            raise self.settings.explain(error) from None
        _log.info("worker of %s reads partitions %s", self._topics[0], client.partitions())
        return client

    def _run_in_thread(self, client: WorkerClient) -> None:
        try:
            asyncio.run(self._work(client))
        except BaseException as error:  # told to whoever stops it
            self._error = error
            _log.exception("the worker of %s failed", self._topics[0])
        finally:
            client.close()

    async def _work(self, client: WorkerClient) -> None:
        positions = _Positions()
        running: set[asyncio.Task[None]] = set()
        committer = asyncio.create_task(self._commit_now_and_then(client, positions))
        threads = None if self._is_async else ThreadPoolExecutor(self._concurrency, "stoatflow-worker-call")
        try:
            while not self._stopping.is_set():
                if committer.done():
                    break
                room = self._concurrency - len(running)
                if room == 0:
                    await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED, timeout=_POLL_S)
                else:
                    for request in await asyncio.to_thread(client.poll, room, _POLL_S):
                        task = asyncio.create_task(self._attend(client, positions, _Request(*request), threads))
                        running.add(task)
                _raise_failed(running)
            if running:
                await asyncio.wait(running, timeout=_CLOSING_S)
                _raise_failed(running)
        finally:
            self._aborting = True
            for task in (committer, *running):
                task.cancel()
            await asyncio.gather(committer, *running, return_exceptions=True)
            if threads is not None:
                threads.shutdown(wait=False, cancel_futures=True)
        if committer.done() and not committer.cancelled() and (failed := committer.exception()) is not None:
            raise failed
        await self._commit(client, positions)

    async def _attend(
        self, client: WorkerClient, positions: _Positions, request: _Request, threads: ThreadPoolExecutor | None
    ) -> None:
        positions.begin(request.partition, request.offset)
        own = {name: value for name, value in request.headers if name in (CORRELATION, ATTEMPT)}
        if CORRELATION not in own:
            _log.warning(
                "%s-%d@%d has no header %s, so nobody waits for its answer: left out",
                self._topics[0], request.partition, request.offset, CORRELATION,
            )  # fmt: skip
        else:
            headers: list[tuple[str, bytes | None]] = list(own.items())
            value: bytes | None = None
            try:
                value = await self._call(request.value, threads)
            except (Exception, asyncio.CancelledError) as error:  # whatever a function raises is an answer
                if self._aborting and isinstance(error, asyncio.CancelledError):
                    raise
                headers.append((ERROR, f"{type(error).__name__}: {error}".encode(errors="replace")))
                _log.warning("%s failed for %s", self._function, own[CORRELATION], exc_info=error)
            client.answer([(request.key, value, headers)])
            self.answered += 1
        positions.end(request.partition, request.offset)

    async def _call(self, data: bytes | None, threads: ThreadPoolExecutor | None) -> bytes | None:
        value = None if data is None else self._value.deserialize(data)
        made: Awaitable[Any]
        if threads is None:
            made = self._function(value)
        else:
            made = asyncio.get_running_loop().run_in_executor(threads, self._call_plain, value)
        try:
            answer = await asyncio.wait_for(made, self._timeout_s)
        except asyncio.TimeoutError as error:
            if self._timeout_s is None or str(error):
                raise
            raise TimeoutError(f"the call did not end within {self._timeout_s:g} s") from None
        return None if answer is None else self._answer.serialize(answer)

    def _call_plain(self, value: object) -> Any:
        try:
            return self._function(value)
        except StopIteration as error:  # one that no future takes
            raise RuntimeError(f"the function raised StopIteration: {error}") from error

    async def _commit_now_and_then(self, client: WorkerClient, positions: _Positions) -> None:
        while True:
            await asyncio.sleep(_COMMIT_S)
            await self._commit(client, positions)

    async def _commit(self, client: WorkerClient, positions: _Positions) -> None:
        if changed := positions.changed():
            await asyncio.to_thread(client.commit, changed)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM for as long as `run` blocks; only the main thread may."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, _frame: FrameType | None) -> None:
            if self._stopping.is_set():
                if number == signal.SIGINT:
                    raise KeyboardInterrupt
                raise SystemExit(128 + number)
            self._stopping.set()
            _log.info("%s: calls that run may end; a second one aborts", signal.Signals(number).name)

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)


class _Positions:
    """Up to where requests are answered, per partition: the first that is not, or behind the last."""

    def __init__(self) -> None:
        self._open: dict[int, dict[int, None]] = {}
        self._next: dict[int, int] = {}
        self._told: dict[int, int] = {}

    def begin(self, partition: int, offset: int) -> None:
        self._open.setdefault(partition, {})[offset] = None
        self._next[partition] = offset + 1

    def end(self, partition: int, offset: int) -> None:
        del self._open[partition][offset]

    def changed(self) -> list[tuple[int, int]]:
        """Give the positions that have moved since the last call."""
        now = {partition: next(iter(self._open[partition]), behind) for partition, behind in self._next.items()}
        moved = [(partition, at) for partition, at in now.items() if self._told.get(partition) != at]
        self._told = now
        return moved


def _raise_failed(running: set[asyncio.Task[None]]) -> None:
    """Forget tasks that are done; what the broker refused is raised."""
    for task in tuple(running):
        if task.done():
            running.discard(task)
            task.result()


def _annotations(function: Callable[..., Any]) -> tuple[object, object]:
    """Give what a function says of its first parameter and of its result; `None` for what it doesn't say."""
    try:
        hints = typing.get_type_hints(function)
        first = next(iter(inspect.signature(function).parameters), None)
    except (TypeError, ValueError, NameError):
        return None, None
    return None if first is None else hints.get(first), hints.get("return")


def _serde(given: SerdeLike[Any] | None, annotation: object) -> Serde[Any]:
    if given is not None:
        return resolve(given)
    return _BY_TYPE.get(annotation, Serdes.json())
