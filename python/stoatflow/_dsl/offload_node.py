"""The plan node of `KStream.offload`.

Takes topics, functions and limits, checks them, returns the node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoatflow.asynchronous import Backoff
from stoatflow.durations import Duration
from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression, right
from stoatflow.handlers import ErrorHandler, OnError, handler
from stoatflow.materialized import Materialized, check_topic, optional_serde, store_spec
from stoatflow.offload import WorkerError
from stoatflow.plan import nodes
from stoatflow.plan.functions import VALUE, callable_only, function
from stoatflow.plan.specs import PatienceSpec
from stoatflow.serdes import SerdeLike, Serdes, resolve
from stoatflow.windows import span_ms


def offload_node(
    parent: int,
    line: str,
    *,
    requests: str,
    responses: str,
    request: Callable[[Any], Any] | Expression | None,
    joiner: Callable[..., Any] | Expression | None,
    with_key: bool,
    key: SerdeLike[Any] | None,
    request_value: SerdeLike[Any] | None,
    response_value: SerdeLike[Any] | None,
    timeout: Duration | None,
    retry: Backoff | None,
    on_timeout: Callable[[Any], Any] | ErrorHandler | str | None,
    on_error: Callable[[Any, WorkerError], Any] | ErrorHandler | str | None,
    max_parked: int,
    name: str | None,
    store: str | Materialized | None,
) -> nodes.Offload:
    """Check all arguments and return the node; raise `TopologyError` if one is wrong."""
    if isinstance(max_parked, bool) or not isinstance(max_parked, int) or max_parked < 1:
        raise TopologyError(
            f"{line} offload(max_parked={max_parked!r}) leaves room for no record",
            next_step="give a whole number of at least 1",
        )
    shape = ("key", "value", "answer") if with_key else ("value", "answer")
    instead_of_timeout, timeout_handler = _timeout(on_timeout, line)
    instead_of_error, error_handler = _error(on_error, line)
    return nodes.Offload(
        line=line,
        name=name,
        on_error=error_handler,
        parent=parent,
        requests=check_topic(requests, "offload(requests=)", line),
        responses=check_topic(responses, "offload(responses=)", line),
        request=None if request is None else function(request, VALUE, "offload(request=)", line),
        function=right if joiner is None else function(joiner, shape, "offload(joiner=)", line),
        with_key=with_key,
        key=optional_serde(key),
        request_value=optional_serde(request_value),
        response_value=Serdes.bytes() if response_value is None else resolve(response_value),
        patience=_patience(timeout, retry, line),
        instead_of_timeout=instead_of_timeout,
        instead_of_error=instead_of_error,
        timeout_handler=timeout_handler,
        max_parked=max_parked,
        materialized=store_spec(store, None, None, "offload", line),
    )


def _patience(timeout: Duration | None, retry: Backoff | None, line: str) -> PatienceSpec:
    if retry is not None and not isinstance(retry, Backoff):
        raise TopologyError(
            f"{line} offload(retry=...) needs a Backoff, not {type(retry).__name__}",
            next_step="pass sf.Backoff(attempts=3)",
        )
    how = Backoff(attempts=1) if retry is None else retry
    kinds = how.on if isinstance(how.on, tuple) else (how.on,)
    return PatienceSpec(
        timeout_ms=None if timeout is None else span_ms(timeout, "offload(timeout=)", least=1),
        attempts=how.attempts,
        first_ms=span_ms(how.first, "Backoff(first=)"),
        most_ms=span_ms(how.most, "Backoff(most=)"),
        jitter=float(how.jitter),
        retry_timeouts=issubclass(TimeoutError, kinds),
        retry_errors=issubclass(WorkerError, kinds),
    )


def _timeout(
    given: Callable[[Any], Any] | ErrorHandler | str | None, line: str
) -> tuple[nodes.Udf | None, ErrorHandler | None]:
    if given is None or isinstance(given, ErrorHandler | str):
        return None, handler(given, "offload(on_timeout=)", line)
    checked = callable_only(given, VALUE, "offload(on_timeout=)", line, "pass a function of (value), or a handler")
    fn = checked.call
    return nodes.Udf(lambda value, _message: fn(value), checked.display), None


def _error(
    given: Callable[[Any, WorkerError], Any] | OnError | None, line: str
) -> tuple[nodes.Udf | None, ErrorHandler | None]:
    if given is None or isinstance(given, ErrorHandler | str):
        return None, handler(given, "offload(on_error=)", line)
    shape, instead = ("value", "error"), "pass a function of (value, error), or a handler"
    checked = callable_only(given, shape, "offload(on_error=)", line, instead)
    fn = checked.call
    return nodes.Udf(lambda value, message: fn(value, WorkerError(message)), checked.display), None
