"""The offsets of the transactions in a partition, from its batches on the broker.

Takes batches; returns the offsets of the records that each committed transaction has written. The gaps that a
reader sees don't suffice: the marker of one transaction may be among the records of the next.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from broker import wire

HEAD = struct.Struct(">qiibIhiqqqhii")
"""Header of a record batch.

Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, first and last timestamp, producer id,
its epoch, base sequence, number of records.
"""
BEHIND_LENGTH = 12
TRANSACTIONAL, CONTROL = 0x10, 0x20
COMMIT = 1


class Transaction(NamedTuple):
    """The records of a committed transaction in the partition."""

    first: int
    last: int


class Batch(NamedTuple):
    """The relevant fields of a batch."""

    first: int
    last: int
    producer: int
    attributes: int
    records: bytes
    epoch: int
    """Of the producer."""


def batches(data: bytes) -> Iterator[Batch]:
    """The complete batches."""
    at = 0
    while at + HEAD.size <= len(data):
        offset, length, _, version, _, attributes, last, _, _, producer, epoch, *_ = HEAD.unpack_from(data, at)
        end = at + BEHIND_LENGTH + length
        if end > len(data):
            return
        assert version == 2, f"a batch of format {version}"
        yield Batch(offset, offset + last, producer, attributes, data[at + HEAD.size : end], epoch)
        at = end


def batches_of(bootstrap: str, topic: str, partition: int = 0) -> list[Batch]:
    """All batches of a partition, including open transactions and markers."""
    host, port = bootstrap.rsplit(":", 1)
    found: list[Batch] = []
    while some := [
        batch
        for at in [found[-1].last + 1 if found else 0]
        for batch in batches(wire.fetch(host, int(port), topic, partition, at))
        if batch.last >= at
    ]:
        found += some
    return found


def is_commit(marker: bytes) -> bool:
    """Whether this control record is a commit. Its key is two 16-bit numbers, after five one-byte fields."""
    version, kind = struct.unpack_from(">hh", marker, 5)
    assert version == 0, f"a marker of version {version}"
    return bool(kind == COMMIT)


def committed(read: Callable[[int], bytes]) -> list[Transaction]:
    """In the order of their first records; `read` returns batches from an offset on."""
    found: list[Transaction] = []
    under_way: dict[int, Transaction] = {}
    at = 0
    while some := [batch for batch in batches(read(at)) if batch.last >= at]:
        for batch in some:
            if not batch.attributes & TRANSACTIONAL:
                continue
            if batch.attributes & CONTROL:
                ended = under_way.pop(batch.producer, None)
                if ended and is_commit(batch.records):
                    found.append(ended)
            else:
                begun = under_way.get(batch.producer, Transaction(batch.first, batch.last))
                under_way[batch.producer] = begun._replace(last=batch.last)
        at = some[-1].last + 1
    return sorted(found)


def committed_on(bootstrap: str, topic: str) -> list[Transaction]:
    """The committed transactions of a topic with one partition, from its leader."""
    host, port = bootstrap.split(",", maxsplit=1)[0].rsplit(":", 1)
    cluster = wire.metadata(host, int(port), [topic])
    host, port = cluster.brokers[cluster.topics[topic].leaders[0]].rsplit(":", 1)
    return committed(lambda offset: wire.fetch(host, int(port), topic, 0, offset))


def mixed(transactions: list[Transaction]) -> list[tuple[Transaction, Transaction]]:
    """Pairs of which one has begun before the other one's last record."""
    return [(one, other) for one, other in pairwise(transactions) if other.first <= one.last]
