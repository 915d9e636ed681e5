"""The operator `offload` of a stream: request and response over topics, while records wait in a parking lot.

Takes two topics and the functions for requests and answers, adds a node, returns the stream of results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from stoatflow._dsl.offload_node import offload_node
from stoatflow.asynchronous import Backoff
from stoatflow.durations import Duration
from stoatflow.expressions import Expression
from stoatflow.handlers import ErrorHandler
from stoatflow.materialized import Materialized
from stoatflow.offload import WorkerError
from stoatflow.plan import Handle
from stoatflow.plan.functions import user_line
from stoatflow.serdes import SerdeLike

if TYPE_CHECKING:
    from stoatflow.stream import KStream

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
R = TypeVar("R")


class StreamOffload(Handle, Generic[K, V]):
    """The method `offload` of a stream."""

    __slots__ = ()

    @overload
    def offload(
        self,
        requests: str,
        responses: str,
        *,
        joiner: None = ...,
        request: Callable[[V], Any] | Expression | None = ...,
        key: SerdeLike[K] | None = ...,
        request_value: SerdeLike[Any] | None = ...,
        response_value: SerdeLike[A],
        timeout: Duration | None = ...,
        retry: Backoff | None = ...,
        on_timeout: Callable[[V], A] | ErrorHandler | str | None = ...,
        on_error: Callable[[V, WorkerError], A] | ErrorHandler | str | None = ...,
        max_parked: int = ...,
        name: str | None = ...,
        store: str | Materialized | None = ...,
    ) -> KStream[K, A]: ...
    @overload
    def offload(
        self,
        requests: str,
        responses: str,
        *,
        joiner: Callable[[V, A], R],
        with_key: Literal[False] = ...,
        request: Callable[[V], Any] | Expression | None = ...,
        key: SerdeLike[K] | None = ...,
        request_value: SerdeLike[Any] | None = ...,
        response_value: SerdeLike[A],
        timeout: Duration | None = ...,
        retry: Backoff | None = ...,
        on_timeout: Callable[[V], R] | ErrorHandler | str | None = ...,
        on_error: Callable[[V, WorkerError], R] | ErrorHandler | str | None = ...,
        max_parked: int = ...,
        name: str | None = ...,
        store: str | Materialized | None = ...,
    ) -> KStream[K, R]: ...
    @overload
    def offload(
        self,
        requests: str,
        responses: str,
        *,
        joiner: Callable[[K, V, A], R],
        with_key: Literal[True],
        request: Callable[[V], Any] | Expression | None = ...,
        key: SerdeLike[K] | None = ...,
        request_value: SerdeLike[Any] | None = ...,
        response_value: SerdeLike[A],
        timeout: Duration | None = ...,
        retry: Backoff | None = ...,
        on_timeout: Callable[[V], R] | ErrorHandler | str | None = ...,
        on_error: Callable[[V, WorkerError], R] | ErrorHandler | str | None = ...,
        max_parked: int = ...,
        name: str | None = ...,
        store: str | Materialized | None = ...,
    ) -> KStream[K, R]: ...
    @overload
    def offload(
        self,
        requests: str,
        responses: str,
        *,
        joiner: Expression,
        request: Callable[[V], Any] | Expression | None = ...,
        key: SerdeLike[K] | None = ...,
        request_value: SerdeLike[Any] | None = ...,
        response_value: SerdeLike[Any] | None = ...,
        timeout: Duration | None = ...,
        retry: Backoff | None = ...,
        on_timeout: Callable[[V], Any] | ErrorHandler | str | None = ...,
        on_error: Callable[[V, WorkerError], Any] | ErrorHandler | str | None = ...,
        max_parked: int = ...,
        name: str | None = ...,
        store: str | Materialized | None = ...,
    ) -> KStream[K, Any]: ...
    @overload
    def offload(
        self,
        requests: str,
        responses: str,
        *,
        joiner: Callable[[V, bytes], R],
        request: Callable[[V], Any] | Expression | None = ...,
        key: SerdeLike[K] | None = ...,
        request_value: SerdeLike[Any] | None = ...,
        timeout: Duration | None = ...,
        retry: Backoff | None = ...,
        on_timeout: Callable[[V], R] | ErrorHandler | str | None = ...,
        on_error: Callable[[V, WorkerError], R] | ErrorHandler | str | None = ...,
        max_parked: int = ...,
        name: str | None = ...,
        store: str | Materialized | None = ...,
    ) -> KStream[K, R]: ...
    def offload(
        self,
        requests: str,
        responses: str,
        *,
        request: Callable[..., Any] | Expression | None = None,
        joiner: Callable[..., Any] | Expression | None = None,
        with_key: bool = False,
        key: SerdeLike[Any] | None = None,
        request_value: SerdeLike[Any] | None = None,
        response_value: SerdeLike[Any] | None = None,
        timeout: Duration | None = "30s",
        retry: Backoff | None = None,
        on_timeout: Callable[..., Any] | ErrorHandler | str | None = None,
        on_error: Callable[..., Any] | ErrorHandler | str | None = None,
        max_parked: int = 100_000,
        name: str | None = None,
        store: str | Materialized | None = None,
    ) -> KStream[Any, Any]:
        """Park each record until a worker has answered a request for it, then emit `joiner(value, answer)`.

        The worker reads `request(value)` (the value itself if left out) from the topic `requests` and writes its answer
        to the topic `responses`, with the same key and the header `stoatflow-correlation`. Results of a key keep the
        order of its records. `timeout` applies to each request; `retry` says how often it is sent again. A record that
        still has no answer is replaced by `on_timeout(value)` or `on_error(value, error)`, or a handler in their place
        decides. While `max_parked` records are parked, no more are read. Kafka Streams has no such operator.

        >>> builder = sf.StreamsBuilder()
        >>> texts = builder.stream("texts", key=str, value=str)
        >>> scores = texts.offload("requests", "scores", request_value=str, response_value=float, name="score")
        >>> scores.print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("texts", str, str).pipe("a", "well done")
        ...     request = driver.output("requests", str, str).read()
        ...     driver.input("scores", str, float).pipe("a", 0.9, headers=request.headers)
        [score]: a, 0.9
        """
        from stoatflow.stream import KStream  # this class is a part of it

        node = offload_node(
            self._at,
            user_line(),
            requests=requests,
            responses=responses,
            request=request,
            joiner=joiner,
            with_key=with_key,
            key=key,
            request_value=request_value,
            response_value=response_value,
            timeout=timeout,
            retry=retry,
            on_timeout=on_timeout,
            on_error=on_error,
            max_parked=max_parked,
            name=name,
            store=store,
        )
        return KStream(self._plan, self._plan.add(node))
