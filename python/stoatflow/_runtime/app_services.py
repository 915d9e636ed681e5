"""What an application adds to its admin port: health checks, endpoints, and gauges with a function.

Takes the user's functions, owns the threads that call them: one for each health check, one for all endpoints, one for
all gauges. The admin port never waits for Python: it shows the last result of a check, and gives up a request after its
timeout.
"""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from stoatflow._runtime import bridge
from stoatflow.durations import Duration, timeout_s
from stoatflow.endpoints import HttpError, HttpRequest, encoded, problem
from stoatflow.errors import ConfigError
from stoatflow.plan.functions import accepts

if TYPE_CHECKING:
    from stoatflow.metrics import GaugeFunction, Metrics
    from stoatflow.spark.engine import SparkEngine

__all__ = ["AppServices", "Services"]

_STEP_S = 0.5
"""Longest wait before a thread looks whether the application has ended."""
_log = logging.getLogger("stoatflow")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _Check:
    number: int
    name: str
    call: Callable[[], Any]
    interval_s: float
    timeout_s: float


@dataclass(frozen=True, slots=True)
class _Endpoint:
    call: Callable[..., Any]
    takes_request: bool
    timeout_s: float


class Services:
    """The services of one run."""

    def __init__(self, engine: bridge.Engine, metrics: Metrics) -> None:
        """Start nothing yet."""
        self._engine = engine
        self._metrics = metrics
        self._native: bridge.AdminHooks | None = None
        self._checks: list[_Check] = []
        self._endpoints: dict[int, _Endpoint] = {}
        self._changing = threading.Lock()
        self._started = False
        self._answers = False
        self._ended = threading.Event()

    @property
    def _hooks(self) -> bridge.AdminHooks:
        if self._native is None:
            self._native = bridge.AdminHooks(self._engine)
        return self._native

    def start(self) -> None:
        """Start the threads that are needed."""
        with self._changing:
            self._started = True
            for check in self._checks:
                self._start_check(check)
            self._start_endpoints()
        if self._metrics.functions:
            _thread("stoatflow-gauges", self._set_gauges)

    def end(self) -> None:
        """Let all threads end; returns at once."""
        self._ended.set()

    def add_check(self, call: Callable[[], Any], name: str, times: tuple[float, float], *, required: bool) -> None:
        """Add a health check, called after each interval of `times`, with the timeout in it."""
        _check_signature(call, f"the health check '{name}'", 0)
        with self._changing:
            number = self._hooks.add_health_check(name, *times, required)
            check = _Check(number, name, call, *times)
            self._checks.append(check)
            if self._started:
                self._start_check(check)

    def add_endpoint(self, call: Callable[..., Any], method: str, path: str, timeout: float) -> None:
        """Add an endpoint."""
        takes_request = _check_signature(call, f"the endpoint {method} {path}", 1)
        text = (inspect.getdoc(call) or "").strip().partition("\n\n")[0]
        summary = " ".join(text.split()) or _name(call)
        with self._changing:
            number = self._hooks.add_endpoint(method, path, summary, timeout)
            self._endpoints[number] = _Endpoint(call, takes_request, timeout)
            if self._started:
                self._start_endpoints()

    # Threads ---------------------------------------------------------------------------------

    def _start_check(self, check: _Check) -> None:
        _thread(f"stoatflow-check-{check.name}", lambda: self._call_check(check))

    def _start_endpoints(self) -> None:
        if self._endpoints and not self._answers:
            self._answers = True
            _thread("stoatflow-endpoints", self._answer_calls)

    def _call_check(self, check: _Check) -> None:
        passed_before: bool | None = None
        while not self._ended.is_set():
            self._hooks.begin_health_check(check.number)
            error: BaseException | None = None
            try:
                passed, detail = _verdict(_called(check.call, (), check.timeout_s))
            except BaseException as raised:  # whatever it raises: the check has failed
                error, passed, detail = raised, False, _text(raised)
            self._hooks.end_health_check(check.number, passed, detail)
            if not passed and passed_before is not False:
                _log.warning("the health check %s fails: %s", check.name, detail, exc_info=error)
            elif passed and passed_before is False:
                _log.info("the health check %s passes again", check.name)
            passed_before = passed
            del error
            self._ended.wait(check.interval_s)

    def _answer_calls(self) -> None:
        while not self._ended.is_set():
            call = self._hooks.next_call(_STEP_S)
            if call is not None:
                call.answer(*self._answer(call, self._endpoints[call.endpoint]))
            del call  # a request that is not answered is given up when it is dropped

    def _answer(self, call: bridge.AdminCall, endpoint: _Endpoint) -> tuple[int, str, bytes]:
        request = HttpRequest(call.method, call.path, call.parameters, call.query, dict(call.headers), bytes(call.body))
        try:
            result = _called(endpoint.call, (request,) if endpoint.takes_request else (), endpoint.timeout_s)
            return encoded(result)
        except HttpError as error:
            return problem(error.status, "refused", error.detail, error.next_step)
        except BaseException as error:  # the thread goes on with the next request
            _log.exception("the endpoint %s %s failed", call.method, call.path)
            return problem(500, "failed", _text(error), "see the application's log for the traceback")

    def _set_gauges(self) -> None:
        due: dict[str, float] = {}
        failing: set[str] = set()
        while not self._ended.is_set():
            now = time.monotonic()
            for one in self._metrics.functions:
                if due.get(one.gauge.name, now) <= now:
                    due[one.gauge.name] = now + one.interval_s
                    _set_gauge(one, failing)
            next_due = min(due.values(), default=now + _STEP_S)
            self._ended.wait(max(0.01, next_due - time.monotonic()))


def _set_gauge(one: GaugeFunction, failing: set[str]) -> None:
    name = one.gauge.name
    try:
        one.gauge.set(float(one.function()))
        failing.discard(name)
    except Exception:  # the others are still asked
        one.gauge.clear()
        if name not in failing:
            failing.add(name)
            _log.exception("the function of the gauge %s failed; the gauge has no value until it succeeds", name)


def _called(call: Callable[..., Any], arguments: tuple[object, ...], timeout: float) -> object:
    """Call a function; one that is async is cancelled after its timeout."""
    result: Any = call(*arguments)
    if not inspect.isawaitable(result):
        return result

    import asyncio  # 6 MB: only for async functions

    async def within() -> object:
        return await asyncio.wait_for(result, timeout)

    try:
        return asyncio.run(within())
    except (TimeoutError, asyncio.TimeoutError) as error:
        raise TimeoutError(f"it has not ended within {timeout:g} s") from error


def _verdict(result: object) -> tuple[bool, str | None]:
    """Whether the result of a check means that it passes, and what it says."""
    if result is None or result is True:
        return True, None
    if result is False:
        return False, "it returned False"
    raise TypeError(f"it returned {result!r}. Next: return True or None if it passes, False or an exception if not")


def _name(call: object) -> str:
    return str(getattr(call, "__name__", type(call).__name__))


def _text(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # its __str__ raises
        return type(error).__name__


def _thread(name: str, target: Callable[[], None]) -> None:
    threading.Thread(target=target, name=name, daemon=True).start()


def _check_signature(call: object, what: str, most: int) -> bool:
    """Whether it takes the one argument that it may get; raise `ConfigError` if it can't be called."""
    next_step = "give it no parameters" if most == 0 else "give it one parameter, the request, or none"
    if not callable(call):
        raise ConfigError(f"{what} is {call!r}, not a function", next_step="pass the function itself")
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):  # some builtins have none
        return most > 0
    takes = [count for count in range(most, -1, -1) if accepts(signature, count)]
    if not takes:
        raise ConfigError(f"{what} can't be called: its parameters are {signature}", next_step=next_step)
    return takes[0] > 0


class AppServices:
    """The part of `StoatFlow` that adds to the admin port."""

    _services: Services
    _on_spark: SparkEngine | None

    def health_check(
        self, name: str | None = None, *, interval: Duration = "10s", timeout: Duration = "1s", required: bool = True
    ) -> Callable[[F], F]:
        """Let the decorated function decide whether the application is ready (`/health/ready`).

        It is called after each `interval`, on a thread of its own; it may be `async def`. It passes if it returns True
        or `None`, and fails if it returns False or raises. A call that takes longer than `timeout` has timed out. With
        `required=False` its result is only shown. `/health/live` never depends on it.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("in").to("out")
        >>> app = sf.StoatFlow(builder.build(), {"application.id": "app", "bootstrap.servers": "localhost:9092"})
        >>> @app.health_check("database", interval="5s")
        ... def database():
        ...     return True
        >>> database()
        True
        """
        if self._on_spark is not None:
            self._on_spark.refuse("health_check()")
        times = _seconds(interval, "interval"), _seconds(timeout, "timeout")

        def add(call: F) -> F:
            self._services.add_check(call, _name(call) if name is None else name, times, required=required)
            return call

        return add

    def endpoint(self, method: str, path: str, *, timeout: Duration = "5s") -> Callable[[F], F]:
        """Let the decorated function answer requests for `/app` + `path` at the admin port.

        `path` may have parameters: `/orders/{id}`. The function gets an `HttpRequest`, or nothing if it takes no
        parameters; it may be `async def`. A dict or list is answered as JSON, a str as text, bytes as they are, `None`
        as 204; `HttpResponse` sets status and type, `HttpError` is an error. One thread calls all functions: requests
        that wait longer than `timeout` get 503, those whose function takes longer 504.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("in").to("out")
        >>> app = sf.StoatFlow(builder.build(), {"application.id": "app", "bootstrap.servers": "localhost:9092"})
        >>> @app.endpoint("GET", "/orders/{id}")
        ... def order(request):
        ...     return {"id": request.parameters["id"]}
        >>> order(sf.HttpRequest("GET", "/app/orders/7", parameters={"id": "7"}))
        {'id': '7'}
        """
        if self._on_spark is not None:
            self._on_spark.refuse("endpoint()")
        seconds = _seconds(timeout, "timeout")

        def add(call: F) -> F:
            self._services.add_endpoint(call, method, path, seconds)
            return call

        return add


def _seconds(duration: Duration, name: str) -> float:
    seconds = timeout_s(duration)
    if seconds is None or seconds <= 0:
        raise ConfigError(f"{name}={duration!r} is no duration", next_step=f'write for example {name}="1s"')
    return seconds
