"""What becomes of records that are older than the watermark: the `late=` of a source.

Takes a word, a `DLQ` or a function of the user, gives plain data for the plan. A function is asked when a record is
late, never before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from stoatflow.errors import TopologyError
from stoatflow.handlers import DLQ
from stoatflow.plan.functions import callable_only, user_line
from stoatflow.plan.nodes import LateFunction

if TYPE_CHECKING:
    from stoatflow.consumed_record import ConsumedRecord
    from stoatflow.plan.nodes import Udf

_SHAPE = ("record", "watermark")
_NEXT = (
    'write late="grace" (each window decides), "drop", DLQ("topic"), or a function (record, watermark) '
    "that gives one of them"
)
_FUNCTION = "pass a function (record, watermark)"

LateVerdict: TypeAlias = Literal["grace", "drop"] | DLQ
"""What becomes of a late record: it goes in and each window decides, it is left out, or it is left out and written to a
dead-letter topic."""


@dataclass(frozen=True, slots=True)
class DecideLate:
    """Ask `fn(record, watermark)` for each late record. A plain function may stand in its place.

    `dead_letters` are topics that it may name: whether they exist is looked at when the application starts. It may
    name others, if they exist by then.

    >>> policy = sf.DecideLate(lambda record, watermark: sf.DLQ("late"), dead_letters=["late"])
    >>> builder = sf.StreamsBuilder()
    >>> watermark = sf.Watermark.monotonic()
    >>> builder.stream("n", value=int, watermark=watermark, late=policy).print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", value=int).pipe(1, timestamp=5_000)
    ...     driver.input("n", value=int).pipe(2, timestamp=1_000)
    ...     print(driver.output("late", value=int).read_value())
    [stream]: None, 1
    2
    """

    fn: Callable[[ConsumedRecord, int], LateVerdict]
    dead_letters: Sequence[str] = ()
    _udf: Udf | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the function's shape, and the topics."""
        line = user_line()
        object.__setattr__(self, "_udf", callable_only(self.fn, _SHAPE, "DecideLate", line, _FUNCTION))
        topics = self.dead_letters
        if isinstance(topics, str) or not all(isinstance(topic, str) and topic for topic in topics):
            raise TopologyError(
                f"{line} DecideLate(dead_letters=) needs names of topics, not {topics!r}",
                next_step='write dead_letters=["topic"]',
            )


LatePolicy: TypeAlias = "LateVerdict | DecideLate | Callable[[ConsumedRecord, int], LateVerdict]"
"""The same for all late records of a source, or a function `(record, watermark)` that says it for each."""


def late_spec(late: LatePolicy | None, method: str, line: str) -> LateFunction | DLQ | str | None:
    """Return the plan's form of `late=`; `None` where every record goes in."""
    if late is None or (isinstance(late, str) and late == "grace"):
        return None
    if isinstance(late, DLQ) or (isinstance(late, str) and late == "drop"):
        return late
    if isinstance(late, DecideLate) and late._udf is not None:
        return LateFunction(late._udf, tuple(late.dead_letters))
    if not callable(late) or isinstance(late, type):
        raise TopologyError(f"{line} {method}: late={_shown(late)} is not known", next_step=_NEXT)
    return LateFunction(callable_only(late, _SHAPE, f"{method}(late=)", line, _FUNCTION))


def refuse_late(late: LatePolicy | None, method: str, line: str) -> None:
    """Raise `TopologyError` where a source takes no part in time."""
    if late is not None:
        raise TopologyError(
            f"{line} {method}: its records are no part of the application's time, so none of them is late",
            next_step="leave late= out",
        )


def _shown(late: Any) -> str:
    return late.__name__ if isinstance(late, type) else repr(late)
