"""What users and workers know of `KStream.offload`: the headers of requests and answers, and a parked record.

The engine parks, asks and answers; a worker (`stoatflow.worker`, or any consumer) is on the other side of the topics.
"""

from __future__ import annotations

from typing import Any, NamedTuple

CORRELATION = "stoatflow-correlation"
"""The header by which an answer finds its record: a worker hands it back."""
ATTEMPT = "stoatflow-attempt"
"""The header that counts the requests for a record, from 1 on."""
ERROR = "stoatflow-error"
"""The header of an answer that is an error: what went wrong."""


class WorkerError(Exception):
    """What a worker answered instead of a result: `on_error(value, error)` gets it.

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
    """The record's own time, milliseconds."""
    since: int
    """When it was parked, by the machine's clock, milliseconds."""
    attempt: int
    """Requests that were sent for it."""
    due: int | None
    """When it is given up or asked again, milliseconds; `None`: never, or it waits for its turn."""
    state: str
    """`asked`, `pausing` (before another request), or what waits behind an earlier record of its key: `answered`,
    `timed_out`, `failed`, `left_out` (by a handler, because no other request could be made)."""
    correlation: str
    """What its answer brings in the header `stoatflow-correlation`."""
