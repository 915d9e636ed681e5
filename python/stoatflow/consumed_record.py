"""An input record as a timestamp extractor sees it.

Takes nothing, gives what `timestamp=lambda record, partition_time: ...` of a source learns of a record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ConsumedRecord:
    """A record as it was read, key and value by the serdes of its source.

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
    """Milliseconds, as the broker has it; -1 if it has none."""
    topic: str
    partition: int
    offset: int
    headers: tuple[tuple[str, bytes | None], ...]
    """In order; names may repeat."""
