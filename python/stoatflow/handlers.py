"""Handlers of records that can't be read, processed or written.

Takes names, values and callables of the user, per application, source and operator; returns plain data for the plan. A
callable is called only when a record has failed. The nearest handler wins: that of the operator or source, then that of
the application, then that of the settings.
"""

from __future__ import annotations

import json
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from stoatflow.durations import Duration, duration_ms
from stoatflow.errors import TopologyError

if TYPE_CHECKING:
    from stoatflow._runtime.bridge import Plan
    from stoatflow.plan.node_base import Udf

_SHAPE = ("context", "record", "exception")
_WORDS = {"log_and_fail": "fail", "fail": "fail", "log_and_continue": "continue", "continue": "continue"}
_NEXT = (
    'write log_and_fail(), log_and_continue(), DLQ("topic"), Retry(3, then=...), or a function '
    "(context, record, exception) that gives one of them"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorContext:
    """Where a record failed.

    >>> def tell(context, record, error):
    ...     print(context.kind, context.topic, context.offset, type(error).__name__)
    ...     return sf.log_and_continue()
    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("n", value=int).map_values(lambda n: 10 // n, on_error=tell).print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", value=int).pipe(0)
    processing n 0 ZeroDivisionError
    """

    kind: Literal["deserialization", "processing", "production"]
    """What failed: reading the record, a function, or writing a record."""
    node: str
    """The node of the topology, by its name in `describe()`."""
    function: str | None
    """The function: file, line and name."""
    topic: str | None
    """Topic of the input record; `None` in a punctuation."""
    partition: int | None
    offset: int | None
    timestamp: int
    """Timestamp of the record that failed, in milliseconds."""
    headers: tuple[tuple[str, bytes | None], ...]
    """Headers of the record that failed."""
    lane: int
    epoch: int
    attempt: int
    """Number of failed calls for this record, including this one: 1, then 2 after a `Retry`..."""
    source_raw_key: bytes | None = None
    """Bytes of the input record's key, where available: at a source. A dead letter always has them."""
    source_raw_value: bytes | None = None
    exception: BaseException | None = field(default=None, repr=False)

    @property
    def traceback(self) -> str:
        """The exception's traceback, as Python prints it.

        >>> def tell(context, record, error):
        ...     print(context.traceback.splitlines()[-1])
        ...     return sf.log_and_continue()
        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("in", value=str).map_values(lambda text: int(text), on_error=tell).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("in", value=str).pipe("ten")
        ValueError: invalid literal for int() with base 10: 'ten'
        """
        return "" if self.exception is None else "".join(traceback.format_exception(self.exception))


class ErrorHandler(ABC):
    """What to do with a record that failed: `log_and_fail()`, `log_and_continue()`, `DLQ(...)`, `Retry(...)`,
    `Decide(...)`.

    >>> def leave_out(context: sf.ErrorContext, record: object, error: BaseException) -> sf.ErrorHandler:
    ...     return sf.log_and_continue()
    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("n", value=int).map_values(lambda n: 10 // n, on_error=leave_out).print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", value=int).pipe_all([0, 5])
    [map_values]: None, 2
    """  # noqa: D205  # the list is the summary

    __slots__ = ()

    @abstractmethod
    def spec(self, callables: Callable[[Udf], int]) -> object:
        """Return the handler as plan data; `callables` numbers functions."""


@dataclass(frozen=True, slots=True)
class _Word(ErrorHandler):
    word: str

    def spec(self, callables: Callable[[Udf], int]) -> object:  # noqa: ARG002  # a named handler has no function
        return self.word

    def __repr__(self) -> str:
        return f"log_and_{self.word}()"


@dataclass(frozen=True, slots=True)
class DLQ(ErrorHandler):
    """Drop the record, and write a dead letter to this topic: the input record's bytes, and what happened in
    headers `__stoatflow.errors.*`. The dead letter is part of the epoch's transaction.

    >>> builder = sf.StreamsBuilder()
    >>> numbers = builder.stream("n", key=str, value=int)
    >>> numbers.map_values(lambda n: 10 // n, on_error=sf.DLQ("dead")).print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", str, int).pipe_all([("a", 0), ("b", 5)])
    ...     print(driver.output("dead", str, int).read_key_value())
    [map_values]: b, 2
    ('a', 0)
    """  # noqa: D205  # one sentence is not enough

    topic: str

    def __post_init__(self) -> None:
        """Check the topic."""
        if not isinstance(self.topic, str) or not self.topic:
            raise TopologyError(f"DLQ needs the name of a topic, not {self.topic!r}", next_step='write DLQ("topic")')

    def spec(self, callables: Callable[[Udf], int]) -> object:  # noqa: ARG002  # it has no function
        """Return the handler as plan data."""
        return {"dlq": self.topic}


@dataclass(frozen=True, slots=True)
class Retry(ErrorHandler):
    """Call again for this record, up to `times` more, after waiting `backoff` each time; then do `then`.

    Other lanes go on meanwhile; records of this lane wait. With an async function only this record waits, and later
    records of its key.

    >>> builder = sf.StreamsBuilder()
    >>> answers = iter([TimeoutError(), "fine"])
    >>> def ask(n: int) -> str:
    ...     answer = next(answers)
    ...     if isinstance(answer, Exception):
    ...         raise answer
    ...     return answer
    >>> builder.stream("n", value=int).map_values(ask, on_error=sf.Retry(3, then=sf.DLQ("dead"))).print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", value=int).pipe(1)
    [map_values]: None, fine
    """

    times: int
    backoff: Duration = "100ms"
    then: ErrorHandler | str | Callable[[ErrorContext, Any, BaseException], ErrorHandler | str] = "log_and_fail"

    def __post_init__(self) -> None:
        """Check the arguments."""
        if isinstance(self.times, bool) or not isinstance(self.times, int) or not 1 <= self.times <= 1_000_000:
            raise TopologyError(
                f"Retry needs a number of times from 1 to 1000000, not {self.times!r}", next_step="write Retry(3)"
            )
        if not 0 <= duration_ms(self.backoff) <= 60_000:
            raise TopologyError(
                f"Retry can't wait {self.backoff!r}: the lane stands still meanwhile",
                next_step="wait at most a minute, or send a dead letter and read it later",
            )
        if not isinstance(self.then, ErrorHandler):
            object.__setattr__(self, "then", handler(self.then, "Retry(then=)", "Retry"))

    def spec(self, callables: Callable[[Udf], int]) -> object:
        """Return the handler as plan data."""
        assert isinstance(self.then, ErrorHandler)  # noqa: S101  # converted in `__post_init__`
        then = self.then.spec(callables)
        return {"retry": {"times": self.times, "backoff_ms": duration_ms(self.backoff), "then": then}}


@dataclass(frozen=True, slots=True)
class Decide(ErrorHandler):
    """Call `fn(context, record, exception)`, which returns a handler. A plain function may be given instead.

    `dead_letters` are topics that the function may name: the application checks at its start that they exist. The
    function may name other topics, if they exist by then.

    >>> def by_kind(context, record, error):
    ...     return sf.log_and_continue() if isinstance(error, ZeroDivisionError) else sf.log_and_fail()
    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("n", value=int).map_values(lambda n: 10 // n, on_error=sf.Decide(by_kind)).print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", value=int).pipe_all([0, 5])
    [map_values]: None, 2
    """

    fn: Callable[[ErrorContext, Any, BaseException], ErrorHandler | str]
    dead_letters: Sequence[str] = ()
    _udf: Udf | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the function's parameters."""
        from stoatflow.plan.functions import callable_only, user_line

        udf = callable_only(self.fn, _SHAPE, "Decide", user_line(), "pass a function (context, record, exception)")
        object.__setattr__(self, "_udf", udf)

    def spec(self, callables: Callable[[Udf], int]) -> object:
        """Return the handler as plan data."""
        assert self._udf is not None  # noqa: S101  # set in `__post_init__`
        call: dict[str, object] = {"udf": callables(self._udf)}
        if self.dead_letters:
            call["topics"] = list(self.dead_letters)
        return {"call": call}


OnError: TypeAlias = ErrorHandler | str | Callable[[ErrorContext, Any, BaseException], "ErrorHandler | str"]
"""A handler, its name (`log_and_continue`, `dlq:TOPIC`), or a function `(context, record, exception)`."""


def log_and_fail() -> ErrorHandler:
    """Stop the application; the epoch is not committed. This is the default.

    >>> builder = sf.StreamsBuilder()
    >>> numbers = builder.stream("n", key=str, value=int)
    >>> numbers.map_values(lambda n: 10 // n, on_error=sf.log_and_fail()).print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", str, int).pipe("b", 5)
    [map_values]: b, 2
    """
    return _Word("fail")


def log_and_continue() -> ErrorHandler:
    """Drop the record: it is logged, and counted by reason.

    >>> builder = sf.StreamsBuilder()
    >>> numbers = builder.stream("n", key=str, value=int)
    >>> numbers.map_values(lambda n: 10 // n, on_error=sf.log_and_continue()).print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", str, int).pipe_all([("a", 0), ("b", 5)])
    [map_values]: b, 2
    """
    return _Word("continue")


def handler(given: OnError | None, method: str, line: str) -> ErrorHandler | None:
    """Return the handler that was given; raise `TopologyError` if it is none."""
    if given is None or isinstance(given, ErrorHandler):
        return given
    handler_given = _by_word(given) if isinstance(given, str) else Decide(given) if callable(given) else None
    if handler_given is not None:
        return handler_given
    raise TopologyError(f"{line} {method}: {given!r} is no error handler", next_step=_NEXT)


def _by_word(word: str) -> ErrorHandler | None:
    if word in _WORDS:
        return _Word(_WORDS[word])
    topic = word.removeprefix("dlq:").strip()
    return DLQ(topic) if word.startswith("dlq:") and topic else None


def with_handlers(
    plan: Plan, processing: OnError | None, deserialization: OnError | None, production: OnError | None
) -> Plan:
    """Return the plan with the handlers of an application."""
    from stoatflow.plan.functions import user_line

    line = user_line()
    udfs: list[Udf] = []

    def number(udf: Udf) -> int:
        udfs.append(udf)
        return len(udfs) - 1

    given = {"processing": processing, "deserialization": deserialization, "production": production}
    handler_given = {kind: handler(one, f"on_{kind}_error=", line) for kind, one in given.items()}
    spec = {kind: one.spec(number) for kind, one in handler_given.items() if one is not None}
    if not spec:
        return plan
    return plan.with_handlers(json.dumps(spec), [udf.call for udf in udfs], [udf.display for udf in udfs])


def decide(
    fn: Callable[[ErrorContext, Any, BaseException], object], record: Any, error: BaseException, **context: Any
) -> str:
    """Call the user's function; return its decision as JSON. Called by the engine."""
    decision = fn(ErrorContext(exception=error, **context), record, error)

    def refuse(udf: Udf) -> int:
        raise TypeError(f"the handler gave the function {udf.display}, which would be asked again: {_NEXT}")

    handler_given = _by_word(decision) if isinstance(decision, str) else decision
    if not isinstance(handler_given, ErrorHandler):
        raise TypeError(
            f"the handler gave {decision!r}. Next: let it give log_and_continue(), DLQ(...) or log_and_fail()"
        )
    return json.dumps(handler_given.spec(refuse))


def describe(error: BaseException) -> tuple[str, str, str]:
    """Class, message and traceback of an exception, for headers. Called by the engine."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return name, str(error), "".join(traceback.format_exception(error))
