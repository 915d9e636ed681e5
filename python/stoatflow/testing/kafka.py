"""Topics of a real Kafka broker for tests, with the methods of `EmbeddedBroker`.

Takes the address of a broker; creates topics, writes and reads records as bytes. Uses the engine's own client: no
other package is needed.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from stoatflow._runtime import bridge
from stoatflow.durations import Duration, duration_ms
from stoatflow.embedded import EmbeddedRecord
from stoatflow.errors import BrokerUnavailableError, MissingTopicError, StoatFlowError
from stoatflow.settings import Settings

if TYPE_CHECKING:
    from types import TracebackType

_PAGE = 1000
_PAUSE = 0.05


class KafkaBroker:
    """Topics of a Kafka broker. The fixture `kafka_broker` makes one; `settings` are those of an application."""

    def __init__(self, bootstrap: str, settings: Mapping[str, object] | None = None) -> None:
        """Take the address, and the settings of a secured cluster; nothing connects before the first call."""
        self.bootstrap = bootstrap
        self.settings: dict[str, object] = {"bootstrap.servers": bootstrap, **(settings or {})}
        self._open: bridge.TopicsClient | None = None
        self._writer: bridge.TransactionalWriter | None = None

    @property
    def _client(self) -> bridge.TopicsClient:
        if self._open is None:
            given = Settings({"application.id": f"stoatflow-test-{uuid.uuid4().hex}", **self.settings}, environ={})
            self._open = bridge.TopicsClient(given.pairs())
        return self._open

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic; one that exists stays as it is."""
        self._client.create_topic(name, partitions, list((config or {}).items()))

    def produce(
        self,
        topic: str,
        key: bytes | str | None,
        value: bytes | str | None,
        timestamp: int | None = None,
        *,
        partition: int | None = None,
    ) -> None:
        """Write one record; text is written as UTF-8. Without a partition the key decides, as in Java's client."""
        now = int(time.time() * 1000) if timestamp is None else timestamp
        self.produce_many(topic, [(partition, _data(key), _data(value), now)])

    def produce_many(self, topic: str, records: Iterable[tuple[int | None, bytes | None, bytes | None, int]]) -> int:
        """Write (partition or None, key, value, timestamp) in one transaction; return how many."""
        if self._writer is None:
            self._writer = self._client.writer(f"stoatflow-test-{uuid.uuid4().hex}")
        self._partitions(topic)
        nothing: list[tuple[str, bytes | None]] = []
        sent = [(topic, partition, key, value, at, nothing) for partition, key, value, at in records]
        self._writer.begin()
        try:
            self._writer.send(sent)
            self._writer.flush()
        except BaseException:
            # The first error is the one to raise. The next call opens another writer.
            with contextlib.suppress(StoatFlowError):
                self._writer.abort()
            self._writer = None
            raise
        if not self._writer.commit():
            raise BrokerUnavailableError(
                f"the broker {self.bootstrap} has aborted the transaction that writes to '{topic}'",
                next_step="see the log of the broker, then run the test again",
            )
        return len(sent)

    def read(self, topic: str) -> Iterator[EmbeddedRecord]:
        """Return the committed records, partition by partition, up to the current end."""
        for partition, (begin, end) in enumerate(self._client.ranges(topic, self._partitions(topic))):
            if begin == end:
                continue
            reader = self._client.read(topic, partition, begin, end)
            while page := reader.next(_PAGE):
                for offset, timestamp, key, value, _ in page:
                    yield EmbeddedRecord(partition, offset, key, value, timestamp)

    def wait_for(self, topic: str, count: int, timeout: Duration = "30s") -> list[EmbeddedRecord]:
        """Return the records of a topic when there are at least `count`; raise `AssertionError` otherwise."""
        deadline = time.monotonic() + duration_ms(timeout) / 1000
        while len(found := list(self.read(topic))) < count:
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"the topic '{topic}' has {len(found)} record(s) after {timeout}, not {count}. Next: see the log "
                    "of the application; if it needs longer, give timeout="
                )
            time.sleep(_PAUSE)
        return found

    def _partitions(self, topic: str) -> int:
        found = self._client.topic(topic)
        if found is None:
            raise MissingTopicError(
                f"the topic '{topic}' does not exist at {self.bootstrap}", next_step="create it with create_topic"
            )
        return found[0]

    def __repr__(self) -> str:
        """Show the address."""
        return f"<KafkaBroker {self.bootstrap}>"

    def close(self) -> None:
        """Close the connections."""
        self._writer = self._open = None

    def __enter__(self) -> KafkaBroker:
        """Return the broker."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()


def _data(given: bytes | str | None) -> bytes | None:
    return given.encode() if isinstance(given, str) else given
