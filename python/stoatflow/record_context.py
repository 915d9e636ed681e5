"""Context of a record, for functions that choose a topic.

It is the `context` in `to(lambda key, value, context: ...)`.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Headers: TypeAlias = "tuple[tuple[str, bytes | None], ...]"
"""Headers of a record, in order; names may occur more than once."""


class RecordContext(NamedTuple):
    """Position of the input record that caused this one, and this record's timestamp and headers.

    >>> builder = sf.StreamsBuilder()
    >>> lines = builder.stream(["shop", "web"], key=str, value=str)
    >>> lines.to(lambda key, line, context: f"{context.topic}-copy", key=str, value=str)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("web", str, str).pipe("a", "stoat")
    ...     print(driver.output("web-copy", str, str).read_value())
    stoat
    """

    topic: str | None
    """The input topic; `None` if a punctuation produced the record."""
    partition: int
    offset: int
    timestamp: int
    """Timestamp of the record itself, in milliseconds."""
    headers: Headers
    """Headers of the record itself, in order; names may occur more than once."""
