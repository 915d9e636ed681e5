"""Where a record comes from, for functions that choose a topic.

Takes nothing, gives what `to(lambda key, value, context: ...)` learns of a record beside key and value.
"""

from __future__ import annotations

from typing import NamedTuple


class RecordContext(NamedTuple):
    """The input record that caused this one, and this one's time and headers.

    >>> builder = sf.StreamsBuilder()
    >>> lines = builder.stream(["shop", "web"], key=str, value=str)
    >>> lines.to(lambda key, line, context: f"{context.topic}-copy", key=str, value=str)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("web", str, str).pipe("a", "stoat")
    ...     print(driver.output("web-copy", str, str).read_value())
    stoat
    """

    topic: str | None
    """The input topic; `None` if the record was made by a punctuation."""
    partition: int
    offset: int
    timestamp: int
    """Of the record itself, milliseconds."""
    headers: tuple[tuple[str, bytes | None], ...]
    """Of the record itself, in order; names may repeat."""
