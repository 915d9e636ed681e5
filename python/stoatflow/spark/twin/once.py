"""Deduplication for readers of topics that a streaming twin writes.

Takes the headers of records, in the order of one partition; returns whether a record is new. Remembers one trigger.
"""

from __future__ import annotations

from collections.abc import Iterable

from stoatflow.spark.twin.output_records import PREFIX

_MADE_BY = ("topic", "partition", "offset", "ordinal")


class Once:
    """Deduplicates the records of one partition: `is_new` is true for each record once.

    A trigger that failed is written again as a whole, before the next one, so only the last trigger must be remembered.
    """

    def __init__(self) -> None:
        """Start empty; create one for each partition that is read, from its beginning."""
        self._trigger = -1
        self._seen: set[tuple[bytes | None, ...]] = set()

    def is_new(self, headers: Iterable[tuple[str, bytes | None]] | None) -> bool:
        """Whether the next record, with these headers, was not seen before."""
        origin = {name[len(PREFIX) :]: value for name, value in headers or () if name.startswith(PREFIX)}
        if "trigger" not in origin:
            raise ValueError("this record has no headers of a streaming twin: it was written by something else")
        trigger, made_by = int(origin["trigger"] or b""), tuple(origin[name] for name in _MADE_BY)
        if trigger > self._trigger:
            self._trigger, self._seen = trigger, set()
        if trigger < self._trigger or made_by in self._seen:
            return False
        self._seen.add(made_by)
        return True
