"""A worker for an `offload`: reads requests from one topic, writes answers to another.

Takes a function, plain or async, and two topics; sends an answer for each request, with the request's key and
correlation header. Owns a reader, a writer and an event loop; `_runtime.worker_calls` makes the calls and
`_runtime.worker_delivery` sends the answers. Positions are committed after answers are acknowledged: after a crash a
request may be answered again, and the `offload` drops the second answer. A function that raises doesn't end the worker:
its error is sent as the answer.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from stoatflow._dsl.signatures import signature_of
from stoatflow._runtime.worker_calls import Calls
from stoatflow._runtime.worker_delivery import Answer, Delivery, Request
from stoatflow.asynchronous import is_async
from stoatflow.durations import Duration, duration_ms
from stoatflow.errors import ConfigError
from stoatflow.offload import CORRELATION
from stoatflow.serdes import Serde, SerdeLike, Serdes, resolve
from stoatflow.settings import Settings, as_settings

if TYPE_CHECKING:
    from stoatflow._runtime.bridge import WorkerClient
    from stoatflow.embedded import EmbeddedBroker

_POLL_S = 0.1
_DRAIN_LOG_S = 10.0
_BY_TYPE: dict[object, Serde[Any]] = {str: Serdes.string(), bytes: Serdes.bytes()}
_log = logging.getLogger("stoatflow")


class Worker:
    """Answers the requests of an `offload`.

    `Worker(score, requests="score-requests", responses="score-responses", bootstrap_servers="localhost:9092").run()`

    >>> def score(text: str) -> float:
    ...     return len(text) / 10
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("ask")
    ...     broker.create_topic("answers")
    ...     with sf.Worker(score, requests="ask", responses="answers", broker=broker) as worker:
    ...         print(worker.answered)
    0
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

        `group` is the consumer group of the requests (`<requests>-worker` by default, whatever `application.id` the
        settings have: they may be those of the application). `value` and `answer` are the serdes of requests and
        answers; the default is by the function's annotations (`str` and `bytes`; otherwise JSON). `concurrency` is the
        number of calls at a time (100 for an async function, 10 for a plain one), `timeout` the limit of each call.
        `share=(1, 3)`: this is the first of three workers, and reads a third of the partitions.
        """
        if not callable(function):
            raise ConfigError(
                f"a worker needs a function, not {type(function).__name__}", next_step="pass a function of (value)"
            )
        self._function = function
        usual = 100 if is_async(function) else 10
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
        # The settings may be those of the application, whose group must not be used here.
        self.settings: Settings = as_settings(config, settings).with_values(
            {"application.id": f"{requests}-worker" if group is None else group}
        )
        if broker is not None:
            self.settings = self.settings.with_defaults({"bootstrap.servers": f"embedded:{broker.path}"})
        self.settings.check()
        self._broker = broker
        self._stopping = threading.Event()
        self._aborting = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._error: BaseException | None = None
        self._delivery: Delivery | None = None

    @property
    def answered(self) -> int:
        """Number of answered requests, including errors.

        >>> builder = sf.StreamsBuilder()
        >>> told = builder.stream("in", value=str).offload("ask", "answers", response_value=str, name="ask")
        >>> with sf.EmbeddedBroker() as broker:
        ...     for topic in ("in", "ask", "answers"):
        ...         broker.create_topic(topic)
        ...     broker.produce("in", "a", "well done")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         with sf.Worker(len, requests="ask", responses="answers", value=str, broker=broker) as worker:
        ...             while not worker.answered: ended = app.wait("10ms")
        ...             print(worker.answered)
        1
        """
        return 0 if self._delivery is None else self._delivery.answered

    def run(self) -> None:
        """Answer requests until it is stopped. Raises errors of the broker.

        In the main thread, the first SIGINT or SIGTERM waits for running calls, however long they take, and commits;
        the second one aborts.

        >>> import threading
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("ask")
        ...     broker.create_topic("answers")
        ...     worker = sf.Worker(len, requests="ask", responses="answers", value=str, broker=broker)
        ...     threading.Timer(0.1, worker.stop).start()
        ...     worker.run()
        ...     print(worker.answered)
        0
        """
        with self._signals():
            client = self._open_unless_stopped()
            if client is None:
                return
            try:
                asyncio.run(self._work(client))
            finally:
                client.close()

    def start(self) -> None:
        """Run in a thread of its own; returns once it reads its topics.

        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("ask")
        ...     broker.create_topic("answers")
        ...     worker = sf.Worker(len, requests="ask", responses="answers", value=str, broker=broker)
        ...     worker.start()
        ...     print(worker.answered)
        ...     worker.stop()
        0
        """
        with self._starting:
            if self._thread is not None:
                raise RuntimeError("this Worker was started before. Next: make a new one")
            client = self._open_unless_stopped()
            if client is None:
                return
            self._thread = threading.Thread(
                target=self._run_in_thread, args=(client,), name="stoatflow-worker", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """Wait for running calls, however long they take, commit, and stop. Raises the error that it failed with.

        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("ask")
        ...     broker.create_topic("answers")
        ...     with sf.Worker(len, requests="ask", responses="answers", value=str, broker=broker) as worker:
        ...         worker.stop()
        ...         print(worker.answered)
        0
        """
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
        """Stop; its own error is raised unless another one is being raised."""
        try:
            self.stop()
        except BaseException:
            if error is None:
                raise

    # Internals -------------------------------------------------------------------------------

    def _open_unless_stopped(self) -> WorkerClient | None:
        """Open the clients in a thread of its own: a signal must not wait for an unavailable broker."""
        opened: Future[WorkerClient] = Future()

        def open_consumer() -> None:
            try:
                opened.set_result(self._open())
            except BaseException as error:  # raised in `wait`
                opened.set_exception(error)

        threading.Thread(target=open_consumer, name="stoatflow-worker-opening", daemon=True).start()
        while not self._stopping.is_set():
            done, _ = wait((opened,), _POLL_S)
            if done:
                return opened.result()
        return None

    def _open(self) -> WorkerClient:
        from stoatflow._runtime import bridge

        native = None if self._broker is None else self._broker.native
        try:
            client = bridge.WorkerClient(self.settings.pairs(), *self._topics, *self._share, native)
        except ConfigError as error:
            raise self.settings.explain(error) from None
        _log.info("worker of %s reads partitions %s", self._topics[0], client.partitions())
        return client

    def _run_in_thread(self, client: WorkerClient) -> None:
        try:
            asyncio.run(self._work(client))
        except BaseException as error:  # raised by `stop`
            self._error = error
            _log.exception("the worker of %s failed", self._topics[0])
        finally:
            client.close()

    async def _work(self, client: WorkerClient) -> None:
        delivery = self._delivery = Delivery(client)
        running: set[asyncio.Task[None]] = set()
        calls = Calls(self._function, (self._value, self._answer), self._concurrency, self._timeout_s, self._aborting)
        delivering = asyncio.create_task(delivery.run())
        try:
            while not self._stopping.is_set() and not delivering.done():
                room = min(calls.room(len(running)), delivery.room)
                if room > 0:
                    for request in await asyncio.to_thread(client.poll, room, _POLL_S):
                        running.add(asyncio.create_task(self._handle(delivery, Request(*request), calls)))
                else:
                    busy = {delivering, *running, *calls.overdue}
                    await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED, timeout=_POLL_S)
                _raise_failed(running)
            await self._drain(running, delivering)
            delivery.end()
            await delivering
        finally:
            self._aborting.set()
            for task in (delivering, *running):
                task.cancel()
            await asyncio.gather(delivering, *running, return_exceptions=True)
            calls.close()

    async def _drain(self, running: set[asyncio.Task[None]], delivering: asyncio.Task[None]) -> None:
        """Wait for running calls, however long they take: otherwise they would run again after the restart."""
        while running and not delivering.done():
            busy = {delivering, *running}
            ended, _ = await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED, timeout=_DRAIN_LOG_S)
            if not ended:
                _log.warning("the worker of %s waits for %d calls to end", self._topics[0], len(running))
            _raise_failed(running)

    async def _handle(self, delivery: Delivery, request: Request, calls: Calls) -> None:
        delivery.begin(request)
        correlation = dict(request.headers).get(CORRELATION)
        if correlation is None:
            _log.warning(
                "%s-%d@%d has no header %s, so nobody waits for its answer: left out",
                self._topics[0], request.partition, request.offset, CORRELATION,
            )  # fmt: skip
            delivery.skip(request)
            return
        value, error = await calls.call(request.value)
        if error is not None:
            _log.warning("%s failed for %s", self._function, correlation, exc_info=error)
        delivery.put(Answer(request, value, None if error is None else _text(error)))

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM while `run` blocks; only the main thread may."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, _frame: FrameType | None) -> None:
            if self._stopping.is_set():
                self._aborting.set()
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


def _text(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # the exception has a broken `__str__`
        return type(error).__name__


def _raise_failed(running: set[asyncio.Task[None]]) -> None:
    """Remove tasks that are done; raise errors of the broker."""
    for task in tuple(running):
        if task.done():
            running.discard(task)
            task.result()


def _annotations(function: Callable[..., Any]) -> tuple[object, object]:
    """Return the annotations of a function's first parameter and of its result; `None` where there is none."""
    try:
        hints = typing.get_type_hints(function)
    except (TypeError, ValueError, NameError):
        return None, None
    known = signature_of(function)
    if known is None:
        return None, None
    first = next(iter(known.parameters), None)
    return None if first is None else hints.get(first), hints.get("return")


def _serde(given: SerdeLike[Any] | None, annotation: object) -> Serde[Any]:
    if given is not None:
        return resolve(given)
    kinds = [kind for kind in typing.get_args(annotation) if kind is not types.NoneType]
    if len(kinds) == 1 and typing.get_origin(annotation) in (typing.Union, types.UnionType):  # `str | None`
        annotation = kinds[0]
    return _BY_TYPE.get(annotation, Serdes.json())
