"""An input record as a timestamp extractor gets it.

It is the `record` of a source's `timestamp=lambda record, partition_time: ...`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ConsumedRecord:
    """A record as it was read, its key and value deserialized by the serdes of its source.

    >>> builder = sf.StreamsBuilder()
    >>> at = lambda record, partition_time: record.value["at"]
    >>> builder.stream("events", value=dict, timestamp=at).to("out", value=dict)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("events", value=dict).pipe({"at": 1234})
    ...     print(driver.output("out", value=dict).read().timestamp)
    1234
    """

    key: Any
    value: Any
    timestamp: int
    """Milliseconds, as set by the producer or the broker; -1 if there is none."""
    topic: str
    partition: int
    offset: int
    headers: tuple[tuple[str, bytes | None], ...]
    """In order; names may occur more than once."""
