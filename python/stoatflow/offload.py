"""`KStream.offload` for users and workers: headers of requests and answers, and parked records.

The engine parks records, sends requests and reads answers; a worker (`stoatflow.worker`, or any consumer) is on the
other side of the topics.
"""

from __future__ import annotations

from typing import Any, NamedTuple

CORRELATION = "stoatflow-correlation"
"""The header that matches an answer with its record: a worker copies it to the answer."""
ATTEMPT = "stoatflow-attempt"
"""The header that counts the requests for a record, starting at 1."""
ERROR = "stoatflow-error"
"""The header of an answer that is an error; its value says what went wrong."""


class WorkerError(Exception):
    """An error that a worker answered instead of a result; passed to `on_error(value, error)`.

    >>> builder = sf.StreamsBuilder()
    >>> texts = builder.stream("in", key=str, value=str)
    >>> texts.offload("ask", "out", response_value=str, name="score", on_error=lambda text, error: str(error)).print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("in", str, str).pipe("a", "well done")
    ...     asked = driver.output("ask").read()
    ...     driver.input("out").pipe(b"a", b"", headers=[*asked.headers, ("stoatflow-error", "too long")])
    [score]: a, too long
    """


class Parked(NamedTuple):
    """A record that is parked, as of the last commit.

    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("texts", key=str, value=str).offload("ask", "answers", response_value=str, name="score").print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("texts", str, str).pipe("a", "well done")
    ...     (parked,) = driver.parked("score")
    ...     print(parked.key, parked.value, parked.state)
    a well done asked
    """

    key: Any
    value: Any
    timestamp: int
    """The record's timestamp, in milliseconds."""
    since: int
    """When it was parked, by the wall clock, in milliseconds."""
    attempt: int
    """Number of requests sent for it."""
    due: int | None
    """When it times out or is requested again, in milliseconds; `None`: never, or it waits for its turn."""
    state: str
    """`asked`, `pausing` (before another request), or, while it waits behind an earlier record of its key: `answered`,
    `timed_out`, `failed`, `left_out` (by a handler, because no other request could be made).
    """
    correlation: str
    """Value of the header `stoatflow-correlation` of its answer."""
