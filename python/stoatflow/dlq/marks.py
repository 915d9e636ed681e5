"""Marks which dead letters have been replayed, as ranges of offsets of their topic.

Encodes offsets as the bytes of a mark, and decodes them. A mark is a record of the topic `<dead letters>-replayed`,
written in the same transaction as the replayed records: both are committed, or neither. The topic is compacted and no
two marks have the same key, so none is ever removed. Pure.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

from stoatflow.errors import IncompatibleStateError

if TYPE_CHECKING:
    from collections.abc import Iterable

_FORMAT = 1


def topic_of(dead_letters: str) -> str:
    """Return the name of the marks topic."""
    return f"{dead_letters}-replayed"


class Mark(NamedTuple):
    """The letters that one transaction has replayed."""

    topic_id: str | None
    """Topic id of the dead-letter topic: a recreated topic has another id, and its offsets mean other letters."""
    ranges: dict[int, list[tuple[int, int]]]
    """First and last offset of each range, by partition."""

    def encode(self) -> bytes:
        """Encode the mark."""
        ranges = {str(partition): ranges for partition, ranges in self.ranges.items()}
        return json.dumps(
            {"format": _FORMAT, "topic_id": self.topic_id, "ranges": ranges}, separators=(",", ":")
        ).encode()

    @staticmethod
    def decode(value: bytes | None, where: str) -> Mark:
        """Decode a mark; raise `IncompatibleStateError` for anything else."""
        try:
            content: dict[str, Any] = json.loads(value or b"")
            if content["format"] == _FORMAT:
                ranges = {int(p): [(int(a), int(b)) for a, b in given] for p, given in content["ranges"].items()}
                return Mark(content["topic_id"], ranges)
        except (ValueError, KeyError, TypeError, AttributeError):
            pass
        raise IncompatibleStateError(
            f"{where} is no mark of a replay that this version can read",
            next_step="use the newest version that has replayed these letters; if something else writes to this topic, "
            "have it stop, and look there which letters were replayed",
        )


def ranges_of(places: Iterable[tuple[int, int]]) -> dict[int, list[tuple[int, int]]]:
    """Return the ranges of places, by partition. A gap between offsets, even without a letter in it, ends a range."""
    ranges: dict[int, list[tuple[int, int]]] = {}
    for partition, offset in sorted(places):
        known = ranges.setdefault(partition, [])
        if known and known[-1][1] >= offset - 1:
            known[-1] = known[-1][0], offset
        else:
            known.append((offset, offset))
    return ranges


class Replayed:
    """The letters that have been replayed."""

    def __init__(self, marks: Iterable[Mark] = (), topic_id: str | None = None) -> None:
        """Take the marks of this topic; marks of an older topic with the same name are ignored."""
        all_ranges: dict[int, list[tuple[int, int]]] = {}
        for mark in marks:
            if mark.topic_id is None or topic_id is None or mark.topic_id == topic_id:
                for partition, ranges in mark.ranges.items():
                    all_ranges.setdefault(partition, []).extend(ranges)
        self._ranges = {partition: _merged(ranges) for partition, ranges in all_ranges.items() if ranges}

    def __contains__(self, place: tuple[int, int]) -> bool:
        """Whether this letter has been replayed."""
        partition, offset = place
        ranges = self._ranges.get(partition, [])
        at = bisect_right(ranges, offset, key=lambda known: known[0]) - 1
        return at >= 0 and ranges[at][1] >= offset

    def beyond(self, ends: list[int]) -> tuple[int, int] | None:
        """Return the place of a marked letter beyond the end of its partition, if there is one."""
        for partition, ranges in self._ranges.items():
            if partition >= len(ends) or ranges[-1][1] >= ends[partition]:
                return partition, ranges[-1][1]
        return None


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return merged
