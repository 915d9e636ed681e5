"""Handling of records that are older than the watermark: the `late=` of a source.

Takes a name, a `DLQ` or a function of the user, returns plain data for the plan. A function is called only when a
record is late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from stoatflow.errors import TopologyError
from stoatflow.handlers import DLQ
from stoatflow.plan.functions import callable_only, user_line
from stoatflow.plan.node_base import LateFunction

if TYPE_CHECKING:
    from stoatflow.consumed_record import ConsumedRecord
    from stoatflow.plan.node_base import Udf

_SHAPE = ("record", "watermark")
_NEXT = (
    'write late="grace" (each window decides), "drop", DLQ("topic"), or a function (record, watermark) '
    "that gives one of them"
)
_FUNCTION = "pass a function (record, watermark)"

LateVerdict: TypeAlias = Literal["grace", "drop"] | DLQ
"""What to do with a late record: "grace" processes it, and each window decides by its grace; "drop" drops it; a `DLQ`
drops it and writes it to a dead-letter topic.
"""


@dataclass(frozen=True, slots=True)
class DecideLate:
    """Call `fn(record, watermark)` for each late record. A plain function may be given instead.

    `dead_letters` are topics that the function may name: the application checks at its start that they exist. The
    function may name other topics, if they exist by then.

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
        """Check the function's parameters, and the topics."""
        line = user_line()
        object.__setattr__(self, "_udf", callable_only(self.fn, _SHAPE, "DecideLate", line, _FUNCTION))
        topics = self.dead_letters
        if isinstance(topics, str) or not all(isinstance(topic, str) and topic for topic in topics):
            raise TopologyError(
                f"{line} DecideLate(dead_letters=) needs names of topics, not {topics!r}",
                next_step='write dead_letters=["topic"]',
            )


LatePolicy: TypeAlias = "LateVerdict | DecideLate | Callable[[ConsumedRecord, int], LateVerdict]"
"""One verdict for all late records of a source, or a function `(record, watermark)` that returns it for each."""


def late_spec(late: LatePolicy | None, method: str, line: str) -> LateFunction | DLQ | str | None:
    """Return `late=` as plan data; `None` if every record is processed."""
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
    """Raise `TopologyError` if `late=` is given for a source without event time."""
    if late is not None:
        raise TopologyError(
            f"{line} {method}: its records are no part of the application's time, so none of them is late",
            next_step="leave late= out",
        )


def _shown(late: Any) -> str:
    return late.__name__ if isinstance(late, type) else repr(late)
