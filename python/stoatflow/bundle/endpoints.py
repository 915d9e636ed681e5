"""Queries all endpoints of the admin port.

Takes a function that sends a request; returns parts, without secrets and, unless wanted, without data of records. Each
request has its own time limit: one that hangs is abandoned and delays no other.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from stoatflow.bundle.part import READ_MOST, Missing, Part, of_data
from stoatflow.bundle.record_data import metrics_without_data, without_data

if TYPE_CHECKING:
    from stoatflow.bundle.secrets import Secrets

T = TypeVar("T")
Ask = Callable[[str], bytes]
"""Returns the answer of a path; raises an error that says why there is none."""

# By the name of the part. Other endpoints are not known to be free of record data.
PATHS = {
    "info": "/info", "state": "/state", "health-live": "/health/live", "health-ready": "/health/ready",
    "threads": "/debug/threads", "barriers": "/debug/barriers", "offsets": "/offsets", "errors": "/errors",
    "watermarks": "/watermarks", "config": "/config", "top": "/top", "topology": "/topology", "stores": "/stores",
    "dead-letters": "/dead-letters", "findings": "/doctor", "endpoints": "/app",
}  # fmt: skip
METRICS = "/metrics"
_DESCRIPTION = "/openapi.json"
_AT_ONCE = 8
_NAMES = ("metrics-1", *PATHS)


class Port(NamedTuple):
    """How the port is queried, and what may be kept."""

    ask: Ask
    secrets: Secrets
    with_data: bool
    seconds: float


def take(port: Port) -> list[Part | Missing]:
    """Return all parts: the first reading of the metrics, the endpoints, and other endpoints that the port has."""
    parts = all_of(lambda name: _take(port, name, PATHS[name]) if name in PATHS else take_metrics(port, name), _NAMES)
    return [*parts, *_others(port)]


def take_metrics(port: Port, name: str) -> Part | Missing:
    """Return the metrics as they are now."""
    return _taken(port, METRICS, lambda answer: Part(f"{name}.txt", METRICS, _metrics(port, answer)))


def all_of(call: Callable[[str], T], of: Iterable[str]) -> list[T]:
    """Call for each, several at a time."""
    threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="stoatflow-bundle")
    try:
        return list(threads.map(call, of))
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def within(seconds: float, call: Callable[[], T]) -> T:
    """Call; raise `TimeoutError` if it takes longer, and let it run on."""
    done: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            done.put((call(), None))
        except BaseException as error:  # raised in the waiting thread
            done.put((None, error))

    threading.Thread(target=work, daemon=True, name="stoatflow-bundle-ask").start()
    try:
        result, error = done.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]  # there was no error


def _take(port: Port, name: str, path: str) -> Part | Missing:
    def show(answer: bytes) -> Part:
        data = json.loads(answer)
        if not port.with_data:
            data = without_data(name, data)
        return of_data(f"{name}.json", path, port.secrets.data(data))

    return _taken(port, path, show)


def _taken(port: Port, path: str, show: Callable[[bytes], Part]) -> Part | Missing:
    try:
        answer = within(port.seconds, lambda: port.ask(path))
        if len(answer) > READ_MOST:
            return Missing(path, f"the answer has more than {READ_MOST} bytes")
        return show(answer)
    except TimeoutError:
        return Missing(path, f"no whole answer within {port.seconds:g} s")
    except Exception as error:  # one part that fails doesn't stop the others
        return Missing(path, port.secrets.text(str(error) or type(error).__name__))


def _metrics(port: Port, answer: bytes) -> str:
    text = answer.decode("utf-8", "replace")
    return port.secrets.text(text if port.with_data else metrics_without_data(text))


def _others(port: Port) -> list[Part | Missing]:
    """Return the endpoints that only a later version has; only with record data, as their content is not known."""
    try:
        described = json.loads(within(port.seconds, lambda: port.ask(_DESCRIPTION)))
        others = _paths(described)
    except TimeoutError:
        return [Missing(_DESCRIPTION, f"no whole answer within {port.seconds:g} s")]
    except Exception as error:  # as above
        return [Missing(_DESCRIPTION, port.secrets.text(str(error) or type(error).__name__))]
    if not port.with_data:
        reason = "this version of the command doesn't know it: it may hold data of records; --with-data takes it"
        return [Missing(path, reason, is_failure=False) for path in others]
    return all_of(lambda path: _take(port, path.strip("/").replace("/", "-"), path), others)


def _paths(described: Any) -> list[str]:
    known = {"/", METRICS, _DESCRIPTION, *PATHS.values()}
    # Below /app, functions of the application answer: a bundle calls none of them.
    found = [each for each in described["paths"].items() if not each[0].startswith("/app/")]
    return sorted(path for path, methods in found if "get" in methods and "{" not in path and path not in known)
