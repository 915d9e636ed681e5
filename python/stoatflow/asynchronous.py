"""Async functions, and how they are awaited.

Takes coroutine functions with their limits (`sf.awaiting`), gives what the plan holds. They are called by
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
    """How a failed call is tried again: so many attempts in all, with pauses that double from `first` up to `most`.

    `jitter=0.2` makes each pause up to a fifth longer or shorter, by chance. `on`: the exceptions that are worth
    another attempt; others fail at once.

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
        """Refuse what can't be."""
        if isinstance(self.attempts, bool) or not isinstance(self.attempts, int) or self.attempts < 1:
            raise ValueError(f"Backoff(attempts={self.attempts!r}): give a whole number of at least 1")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"Backoff(jitter={self.jitter!r}): give a share between 0 and 1")
        duration_ms(self.first)
        duration_ms(self.most)

    def pause_s(self, failed: int) -> float:
        """Give the seconds to wait after so many failed attempts.

        >>> pauses = sf.Backoff(first="100ms", most="1s", jitter=0)
        >>> [pauses.pause_s(failed) for failed in (1, 2, 5)]
        [0.1, 0.2, 1.0]
        """
        longest = duration_ms(self.most)
        pause = min(duration_ms(self.first) * 2.0 ** min(failed - 1, 60), longest)
        return pause * (1 + random.uniform(-self.jitter, self.jitter)) / 1000  # noqa: S311  # no secret


class Awaiting(Generic[P, R]):
    """An async function with its limits, made by `sf.awaiting`: stands wherever a function may.

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
        _wear(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, without the limits: `await fetch.function(...)` is what a type checker likes."""
        return cast("R", self.function(*args, **kwargs))

    def around(self, function: Callable[..., Awaitable[Any]]) -> Awaiting[Any, Any]:
        """Give the same limits around another function.

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
        _wear(other, function)
        return other


def _wear(awaiting: Awaiting[Any, Any], function: Callable[..., object]) -> None:
    """Take over its name and its text, and none of its attributes: they may be called as the limits are."""
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
    """Say how an async function is awaited; also a decorator, with or without limits.

    `concurrency`: so many calls at a time, of all lanes. `timeout`: of each attempt; `None`: none. `retry`: a
    `Backoff`. `on_timeout(value)` and `on_error(value, exception)` give the result of a call that failed for good,
    and may be async. `park_after`: how long a commit waits for calls before it parks them.

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
    """Would calling it give something to await, or to iterate over asynchronously?"""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return any(
        inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in (fn, type(fn).__call__)
    )


def as_awaiting(fn: Callable[..., Any]) -> Awaiting[Any, Any] | None:
    """Give how a function is awaited: with the usual limits, if it is async and says nothing."""
    if isinstance(fn, Awaiting):
        return fn
    return Awaiting(fn) if is_async(fn) else None
