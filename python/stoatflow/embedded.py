"""Topics in a directory, without a broker: for first runs, notebooks, tests and small jobs.

Takes and returns bytes: serdes belong to topologies and to the test driver.
"""

from __future__ import annotations

import atexit
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import NamedTuple

from stoatflow._runtime import bridge

_PAGE = 4096
_temporary: list[tuple[int, str]] = []
"""Process and path of each temporary directory, including those already removed."""


class EmbeddedRecord(NamedTuple):
    """A record of an embedded topic.

    >>> sf.EmbeddedRecord(partition=0, offset=0, key=b"a", value=b"1", timestamp=0).value
    b'1'
    """

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


class EmbeddedBroker:
    """An embedded broker; pass it to `StoatFlow(..., broker=...)`.

    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("orders", 1)
    ...     broker.produce("orders", "ann", "30")
    ...     for record in broker.read("orders"):
    ...         print(record.offset, record.key, record.value)
    0 b'ann' b'30'
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        """Open the directory, or a temporary one that `close` or the end of the process removes."""
        self._native = bridge.EmbeddedBroker(None if path is None else os.fspath(path))
        if path is None:
            _temporary.append((os.getpid(), self._native.path))

    @property
    def native(self) -> bridge.EmbeddedBroker:
        """The native broker."""
        return self._native

    @property
    def path(self) -> str:
        """The directory; the matching `bootstrap.servers` is `embedded:` and this path.

        >>> with sf.EmbeddedBroker("topics") as broker:
        ...     print(broker.path.endswith("/topics"))
        True
        """
        return self._native.path

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic; one that exists with the same number of partitions stays as it is.

        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("orders", 3)
        ...     print(broker.topics())
        {'orders': 3}
        """
        self._native.create_topic(name, partitions)

    def topics(self) -> dict[str, int]:
        """Return every topic with its number of partitions.

        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("orders", 3)
        ...     print(broker.topics())
        {'orders': 3}
        """
        return dict(self._native.topics())

    def produce(
        self,
        topic: str,
        key: bytes | str | None,
        value: bytes | str | None,
        timestamp: int | None = None,
        *,
        partition: int | None = None,
    ) -> None:
        """Append one record; text is written as UTF-8. For many records `produce_many` is faster.

        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("orders")
        ...     broker.produce("orders", "ann", "30", timestamp=1000)
        ...     print(broker.end_offsets("orders"))
        {0: 1}
        """
        at = int(time.time() * 1000) if timestamp is None else timestamp
        self._native.produce_many(topic, [(partition, _data(key, "key"), _data(value, "value"), at)])

    def produce_many(self, topic: str, records: Iterable[tuple[int | None, bytes | None, bytes | None, int]]) -> int:
        """Append (partition or None, key, value, timestamp); return how many. Accepts any iterable, page by page.

        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("orders")
        ...     print(broker.produce_many("orders", [(None, b"ann", b"30", 1000), (None, b"bob", b"20", 2000)]))
        2
        """
        rest = iter(records)
        count = 0
        while page := list(islice(rest, _PAGE)):
            count += self._native.produce_many(topic, page)
        return count

    def read(self, topic: str, isolation: str = "read_committed") -> Iterator[EmbeddedRecord]:
        """Return the records, partition by partition, up to the current end.

        A transaction is one write batch here, so uncommitted records don't exist and both isolation levels return the
        same.

        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("orders")
        ...     broker.produce("orders", "ann", "30")
        ...     print([record.value for record in broker.read("orders")])
        [b'30']
        """
        if isolation not in ("read_committed", "read_uncommitted"):
            raise ValueError(f"isolation {isolation!r} is neither read_committed nor read_uncommitted")
        for partition, end in self.end_offsets(topic).items():
            offset = 0
            while offset < end:
                page = self._native.fetch(topic, partition, offset, _PAGE)
                if not page:
                    break
                for at, key, value, timestamp in page:
                    if at >= end:
                        break
                    yield EmbeddedRecord(partition, at, key, value, timestamp)
                offset = page[-1][0] + 1

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Return the end offset of each partition: that of the next committed record.

        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("orders")
        ...     broker.produce("orders", "ann", "30")
        ...     print(broker.end_offsets("orders"))
        {0: 1}
        """
        return dict(enumerate(self._native.end_offsets(topic)))

    def __repr__(self) -> str:
        """Show path and topics."""
        try:
            topics = ", ".join(f"{name} ({count})" for name, count in self.topics().items())
        except Exception:  # closed: a repr never fails
            return "<EmbeddedBroker closed>"
        return f"<EmbeddedBroker {self.path}: {topics or 'no topics'}>"

    def close(self) -> None:
        """Release the directory; may be called more than once.

        >>> broker = sf.EmbeddedBroker("topics")
        >>> broker.create_topic("orders")
        >>> broker.close()
        >>> with sf.EmbeddedBroker("topics") as again:
        ...     print(again.topics())
        {'orders': 1}
        """
        self._native.close()

    def __enter__(self) -> EmbeddedBroker:
        """Return the broker, which is open already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the broker."""
        self.close()


def _data(given: bytes | str | None, what: str) -> bytes | None:
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, str):
        return given.encode()
    raise TypeError(
        f"the {what} {given!r} is a {type(given).__name__}; an embedded topic takes bytes, text or None. "
        "Next: serialize it, such as Serdes.json().serialize(...)"
    )


@atexit.register
def remove_temporary_directories() -> None:
    """Remove the directories of brokers that were not closed. Not in a forked child: its parent still uses them."""
    for owner, path in _temporary:
        if owner == os.getpid():
            shutil.rmtree(path, ignore_errors=True)
