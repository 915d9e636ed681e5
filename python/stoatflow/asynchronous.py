"""Async functions, and their limits.

Takes coroutine functions with their limits (`sf.awaiting`), returns objects for the plan. They are called by
`stoatflow._runtime.event_loop`, which only topologies with async functions load: asyncio costs 6 MB of memory.
"""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from stoatflow.durations import Duration, duration_ms
from stoatflow.errors import TopologyError

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Backoff:
    """Retries of a failed call: `attempts` in all, with pauses that double from `first` up to `most`.

    `jitter=0.2` makes each pause randomly up to a fifth longer or shorter. `on` names the exceptions that are retried;
    others fail at once.

    >>> pauses = sf.Backoff(attempts=4, first="100ms", most="5s", jitter=0)
    >>> [pauses.pause_s(failed) for failed in (1, 2, 3)]
    [0.1, 0.2, 0.4]
    """

    attempts: int = 3
    first: Duration = "100ms"
    most: Duration = "5s"
    jitter: float = 0.2
    on: type[BaseException] | tuple[type[BaseException], ...] = Exception

    def __post_init__(self) -> None:
        """Check the values."""
        if isinstance(self.attempts, bool) or not isinstance(self.attempts, int) or self.attempts < 1:
            raise ValueError(f"Backoff(attempts={self.attempts!r}): give a whole number of at least 1")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"Backoff(jitter={self.jitter!r}): give a share between 0 and 1")
        duration_ms(self.first)
        duration_ms(self.most)

    def pause_s(self, failed: int) -> float:
        """Return the seconds to wait after this many failed attempts.

        >>> pauses = sf.Backoff(first="100ms", most="1s", jitter=0)
        >>> [pauses.pause_s(failed) for failed in (1, 2, 5)]
        [0.1, 0.2, 1.0]
        """
        longest = duration_ms(self.most)
        pause = min(duration_ms(self.first) * 2.0 ** min(failed - 1, 60), longest)
        return pause * (1 + random.uniform(-self.jitter, self.jitter)) / 1000  # noqa: S311  # no secret


class Awaiting(Generic[P, R]):
    """An async function with its limits, created by `sf.awaiting`; accepted wherever a function is.

    >>> async def rating(user: str) -> str:
    ...     return f"{user}: 5 stars"
    >>> limited = sf.awaiting(rating, concurrency=500, timeout="2s")
    >>> limited.concurrency, limited.timeout_s
    (500, 2.0)
    """

    def __init__(
        self,
        function: Callable[P, Awaitable[R]],
        *,
        concurrency: int = 100,
        timeout: Duration | None = "30s",
        retry: Backoff | None = None,
        on_timeout: Callable[[Any], Any] | None = None,
        on_error: Callable[[Any, Exception], Any] | None = None,
        park_after: Duration = "50ms",
    ) -> None:
        """Check everything."""
        if not is_async(function):
            raise TopologyError(
                f"sf.awaiting needs an async function, not {function!r}",
                next_step="write async def; a plain function needs no sf.awaiting",
            )
        if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
            raise TopologyError(
                f"sf.awaiting(concurrency={concurrency!r}) would never begin a call",
                next_step="give a whole number of at least 1",
            )
        if retry is not None and not isinstance(retry, Backoff):
            raise TopologyError(
                f"sf.awaiting(retry=...) needs a Backoff, not {type(retry).__name__}",
                next_step="pass sf.Backoff(attempts=3)",
            )
        for name, fallback in (("on_timeout", on_timeout), ("on_error", on_error)):
            if fallback is not None and not callable(fallback):
                raise TopologyError(
                    f"sf.awaiting({name}=...) needs a function, not {type(fallback).__name__}",
                    next_step="pass a function of (value)" if name == "on_timeout" else "pass one of (value, error)",
                )
        self.function = function
        self.concurrency = concurrency
        self.timeout_s: float | None = None if timeout is None else duration_ms(timeout) / 1000
        self.retry = retry
        self.on_timeout = on_timeout
        self.on_error = on_error
        self.park_after_ms: int = duration_ms(park_after)
        _copy_metadata(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function without the limits; type checkers prefer `await fetch.function(...)`."""
        return cast("R", self.function(*args, **kwargs))

    def around(self, function: Callable[..., Awaitable[Any]]) -> Awaiting[Any, Any]:
        """Return another function with the same limits.

        >>> async def rating(user: str) -> str:
        ...     return f"{user}: 5 stars"
        >>> async def city(user: str) -> str:
        ...     return "Oslo"
        >>> limited = sf.awaiting(rating, concurrency=500, timeout="2s").around(city)
        >>> limited.__name__, limited.concurrency, limited.timeout_s
        ('city', 500, 2.0)
        """
        other: Awaiting[Any, Any] = object.__new__(Awaiting)
        other.__dict__.update(self.__dict__)
        other.function = function
        _copy_metadata(other, function)
        return other


def _copy_metadata(awaiting: Awaiting[Any, Any], function: Callable[..., object]) -> None:
    """Copy the function's name and docstring, but no other attributes: they may have the names of the limits."""
    functools.update_wrapper(awaiting, function, updated=())


@overload
def awaiting(function: Callable[P, Coroutine[Any, Any, R]], /) -> Awaiting[P, R]: ...
@overload
def awaiting(
    function: Callable[P, Coroutine[Any, Any, R]],
    /,
    *,
    concurrency: int = ...,
    timeout: Duration | None = ...,
    retry: Backoff | None = ...,
    on_timeout: Callable[[Any], Any] | None = ...,
    on_error: Callable[[Any, Exception], Any] | None = ...,
    park_after: Duration = ...,
) -> Awaiting[P, R]: ...
@overload
def awaiting(
    *,
    concurrency: int = ...,
    timeout: Duration | None = ...,
    retry: Backoff | None = ...,
    on_timeout: Callable[[Any], Any] | None = ...,
    on_error: Callable[[Any, Exception], Any] | None = ...,
    park_after: Duration = ...,
) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Awaiting[P, R]]: ...
def awaiting(
    function: Callable[..., Any] | None = None,
    /,
    *,
    concurrency: int = 100,
    timeout: Duration | None = "30s",
    retry: Backoff | None = None,
    on_timeout: Callable[[Any], Any] | None = None,
    on_error: Callable[[Any, Exception], Any] | None = None,
    park_after: Duration = "50ms",
) -> Any:
    """Set limits for awaiting an async function; also a decorator, with or without arguments.

    `concurrency`: calls at a time, over all lanes. `timeout`: limit of each attempt; `None` for none. `retry`: a
    `Backoff`. `on_timeout(value)` and `on_error(value, exception)` return the result of a call that failed finally, and
    may be async. `park_after`: how long a commit waits for calls before it parks them.

    >>> @sf.awaiting(timeout="2s", retry=sf.Backoff(attempts=3), on_error=lambda value, error: "?")
    ... async def rating(user: str) -> str:
    ...     return f"{user}: 5 stars"
    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("users", value=str).map_values(rating, name="ratings").print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("users", value=str).pipe("ann")
    [ratings]: None, ann: 5 stars
    """

    def limited(function: Callable[..., Any]) -> Awaiting[Any, Any]:
        return Awaiting(
            function,
            concurrency=concurrency,
            timeout=timeout,
            retry=retry,
            on_timeout=on_timeout,
            on_error=on_error,
            park_after=park_after,
        )

    return limited if function is None else limited(function)


def is_async(fn: object) -> bool:
    """Whether calling it returns something to await, or an async iterator."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return any(
        inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in (fn, type(fn).__call__)
    )


def as_awaiting(fn: Callable[..., Any]) -> Awaiting[Any, Any] | None:
    """Return an async function with its limits, or with the default ones; `None` for a plain function."""
    if isinstance(fn, Awaiting):
        return fn
    return Awaiting(fn) if is_async(fn) else None
