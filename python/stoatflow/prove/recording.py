"""Reads records of topics as inputs of a proof.

Takes a broker (Kafka or embedded) and topics; returns the first or the last committed records of each. Records of all
topics and partitions are merged by time; each partition keeps its order. Never writes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from stoatflow.errors import MissingTopicError
from stoatflow.prove.inputs import InputRecord

if TYPE_CHECKING:
    from stoatflow._runtime import bridge

_PAGE = 1000


def record(client: bridge.TopicsClient, topics: Sequence[str], most: int, *, last: bool = False) -> list[InputRecord]:
    """Return up to `most` records of each topic."""
    found: list[list[InputRecord]] = []
    for topic in topics:
        partitions = _partitions(client, topic, most, last=last)
        merged = heapq.merge(*partitions, key=lambda one: one.timestamp)
        # The newest or the oldest over all partitions.
        whole = list(merged) if last else list(islice(merged, most))
        found.append(whole[-most:] if last else whole)
    return list(heapq.merge(*found, key=lambda one: one.timestamp))


def _partitions(
    client: bridge.TopicsClient, topic: str, most: int, *, last: bool
) -> list[Iterator[InputRecord] | list[InputRecord]]:
    there = client.topic(topic)
    if there is None:
        raise MissingTopicError(
            f"the topic '{topic}' does not exist at {client.address}", next_step="check --topic and --bootstrap"
        )
    found: list[Iterator[InputRecord] | list[InputRecord]] = []
    for partition, (begin, end) in enumerate(client.ranges(topic, there[0])):
        if begin < end:
            found.append(
                _last(client, topic, partition, begin, end, most)
                if last
                else islice(_read(client, topic, partition, begin, end), most)
            )
    return found


def _last(
    client: bridge.TopicsClient, topic: str, partition: int, begin: int, end: int, most: int
) -> list[InputRecord]:
    """Return the last records; reads further back if compaction or transactions have left gaps."""
    back = most
    while True:
        start = max(begin, end - back)
        found = list(_read(client, topic, partition, start, end))
        if len(found) >= most or start == begin:
            return found[-most:]
        back *= 4


def _read(client: bridge.TopicsClient, topic: str, partition: int, begin: int, end: int) -> Iterator[InputRecord]:
    reader = client.read(topic, partition, begin, end)
    while page := reader.next(_PAGE):
        for _, timestamp, key, value, headers in page:
            yield InputRecord(topic, key, value, timestamp, tuple(headers))
