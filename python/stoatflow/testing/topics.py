"""Topics in tests: write to inputs, read outputs.

Takes and returns Python values; serdes convert them to the bytes of the engine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar, overload

from stoatflow.durations import Duration, Timestamp, duration_ms, timestamp_ms
from stoatflow.serdes import Serde
from stoatflow.testing.record import Header, Headers, Record

K = TypeVar("K")
V = TypeVar("V")

RawRecord: TypeAlias = tuple["bytes | None", "bytes | None", int, "list[Header]"]
HeadersLike: TypeAlias = "Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]"
_MISSING: Any = object()


class TestInputTopic(Generic[K, V]):
    """Writes records to a topic; each one is processed completely before the next.

    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("orders", key=str, value=int).map_values(lambda total: total * 2).to("doubled", value=int)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     orders = driver.input("orders", str, int)
    ...     orders.pipe("ann", 30)
    ...     print(driver.output("doubled", str, int).read_value())
    60
    """

    __test__ = False  # not a test class, despite its name

    def __init__(
        self,
        pipe: Callable[[bytes | None, bytes | None, int, list[Header]], None],
        now: Callable[[], int],
        key: Serde[K],
        value: Serde[V],
        start: Timestamp | None,
        advance: Duration | None,
    ) -> None:
        """Created by `TopologyTestDriver.input`."""
        self._pipe = pipe
        self._now = now
        self._key = key
        self._value = value
        self._next = None if start is None else timestamp_ms(start)
        self._step = 0 if advance is None else duration_ms(advance)

    @overload
    def pipe(self, value: V | None, /, *, timestamp: Timestamp | None = ..., headers: HeadersLike = ...) -> None: ...
    @overload
    def pipe(
        self, key: K | None, value: V | None, /, timestamp: Timestamp | None = ..., headers: HeadersLike = ...
    ) -> None: ...
    def pipe(
        self,
        first: Any,
        second: Any = _MISSING,
        /,
        timestamp: Timestamp | None = None,
        headers: HeadersLike = (),
    ) -> None:
        """Write `pipe(value)` or `pipe(key, value)`; the default timestamp is the topic's or the driver's time.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("orders", key=str, value=int).to("copy")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe("ann", 30, timestamp=1000, headers={"from": "shop"})
        ...     print(driver.output("copy", str, int).read())
        Record(key='ann', value=30, timestamp=1000, headers=(('from', b'shop'),))
        """
        key, value = (None, first) if second is _MISSING else (first, second)
        self._pipe(
            None if key is None else self._key.serialize(key),
            None if value is None else self._value.serialize(value),
            self._time() if timestamp is None else timestamp_ms(timestamp),
            _headers(headers),
        )

    def pipe_all(
        self,
        items: Iterable[V | tuple[K | None, V | None] | Record[K, V] | None],
        *,
        start: Timestamp | None = None,
        advance: Duration | None = None,
    ) -> None:
        """Write many: values, `(key, value)` pairs or `Record`s; `start` and `advance` apply to this call.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("orders", key=str, value=int).to("copy")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe_all([("ann", 30), ("bob", 20)], start=1000, advance="1s")
        ...     for record in driver.output("copy", str, int):
        ...         print(record.key, record.value, record.timestamp)
        ann 30 1000
        bob 20 2000
        """
        at = None if start is None else timestamp_ms(start)
        step = 0 if advance is None else duration_ms(advance)
        for item in items:
            if isinstance(item, Record):
                self.pipe(item.key, item.value, timestamp=item.timestamp, headers=item.headers)
                continue
            key, value = item if isinstance(item, tuple) and len(item) == 2 else (None, item)
            self.pipe(key, value, timestamp=at)
            at = None if at is None else at + step

    def advance_time(self, by: Duration) -> None:
        """Advance the topic's time.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("orders", key=str, value=int).to("copy")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     orders = driver.input("orders", str, int, start=1000)
        ...     orders.advance_time("5s")
        ...     orders.pipe("ann", 30)
        ...     print(driver.output("copy", str, int).read().timestamp)
        6000
        """
        self._next = (self._now() if self._next is None else self._next) + duration_ms(by)

    def _time(self) -> int:
        if self._next is None and self._step == 0:
            return self._now()
        at = self._now() if self._next is None else self._next
        self._next = at + self._step
        return at

    pipe_input = pipe
    pipe_value_list = pipe_all
    pipe_key_value_list = pipe_all
    pipe_record_list = pipe_all


class TestOutputTopic(Generic[K, V]):
    """Reads the committed records of a topic, each one once.

    >>> builder = sf.StreamsBuilder()
    >>> builder.stream("orders", key=str, value=int).filter(sf.value > 25).to("large")
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("orders", str, int).pipe_all([("ann", 30), ("bob", 20)])
    ...     large = driver.output("large", str, int)
    ...     print(large.read_key_value(), large.is_empty)
    ('ann', 30) True
    """

    __test__ = False

    def __init__(self, topic: str, fill: Callable[[], deque[RawRecord]], key: Serde[K], value: Serde[V]) -> None:
        """Created by `TopologyTestDriver.output`."""
        self._topic = topic
        self._fill = fill
        self._key = key
        self._value = value

    def read(self) -> Record[K, V]:
        """Return the next record; raise `LookupError` if there is none.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("orders", key=str, value=int).to("copy")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe("ann", 30, timestamp=1000)
        ...     print(driver.output("copy", str, int).read())
        Record(key='ann', value=30, timestamp=1000, headers=())
        """
        waiting = self._fill()
        if not waiting:
            raise LookupError(f"no record is left in the topic '{self._topic}'. Next: ask .is_empty before reading")
        key, value, timestamp, headers = waiting.popleft()
        return Record(
            None if key is None else self._key.deserialize(key),
            None if value is None else self._value.deserialize(value),
            timestamp,
            tuple(headers),
        )

    def read_value(self) -> V | None:
        """Return the next record's value.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("orders", key=str, value=int).to("copy")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe("ann", 30)
        ...     print(driver.output("copy", str, int).read_value())
        30
        """
        return self.read().value

    def read_key_value(self) -> tuple[K | None, V | None]:
        """Return the next record's key and value.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("orders", key=str, value=int).to("copy")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe("ann", 30)
        ...     print(driver.output("copy", str, int).read_key_value())
        ('ann', 30)
        """
        record = self.read()
        return record.key, record.value

    def read_all(self) -> list[Record[K, V]]:
        """Return all remaining records.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("orders", key=str, value=int).to("copy")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe_all([("ann", 30), ("bob", 20)])
        ...     print([record.key for record in driver.output("copy", str, int).read_all()])
        ['ann', 'bob']
        """
        return list(self)

    def read_values_to_list(self) -> list[V | None]:
        """Return the values of all remaining records.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("orders", key=str, value=int).to("copy")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe_all([("ann", 30), ("bob", 20)])
        ...     print(driver.output("copy", str, int).read_values_to_list())
        [30, 20]
        """
        return [record.value for record in self]

    def read_key_values_to_list(self) -> list[tuple[K | None, V | None]]:
        """Return keys and values of all remaining records.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("orders", key=str, value=int).to("copy")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe_all([("ann", 30), ("bob", 20)])
        ...     print(driver.output("copy", str, int).read_key_values_to_list())
        [('ann', 30), ('bob', 20)]
        """
        return [(record.key, record.value) for record in self]

    def to_dict(self) -> dict[K, V | None]:
        """Return the last value of each key in the remaining records; raise `ValueError` for a null key.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("orders", key=str, value=int).to("copy")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe_all([("ann", 30), ("bob", 20), ("ann", 50)])
        ...     print(driver.output("copy", str, int).to_dict())
        {'ann': 50, 'bob': 20}
        """
        last: dict[K, V | None] = {}
        for record in self:
            if record.key is None:
                raise ValueError(f"a record of the topic '{self._topic}' has a null key. Next: use read_all()")
            last[record.key] = record.value
        return last

    @property
    def is_empty(self) -> bool:
        """Whether no record remains.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("orders", key=str, value=int).to("copy")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe("ann", 30)
        ...     copy = driver.output("copy", str, int)
        ...     print(copy.is_empty, copy.read_value(), copy.is_empty)
        False 30 True
        """
        return not self._fill()

    @property
    def queue_size(self) -> int:
        """The number of remaining records.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("orders", key=str, value=int).to("copy")
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("orders", str, int).pipe_all([("ann", 30), ("bob", 20)])
        ...     copy = driver.output("copy", str, int)
        ...     print(copy.queue_size, copy.read_value(), copy.queue_size)
        2 30 1
        """
        return len(self._fill())

    def __len__(self) -> int:
        """Return the number of remaining records."""
        return len(self._fill())

    def __bool__(self) -> bool:
        """Return True: an empty topic is still a topic."""
        return True

    def __iter__(self) -> Iterator[Record[K, V]]:
        """Read the remaining records."""
        while self._fill():
            yield self.read()

    read_record = read
    read_records_to_list = read_all
    read_key_values_to_map = to_dict


def _headers(headers: HeadersLike) -> list[Header]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [(name, text.encode() if isinstance(text, str) else text) for name, text in pairs]


def header_text(headers: Headers) -> list[tuple[str, str | None]]:
    """Return headers with their values as text."""
    return [(name, None if value is None else value.decode()) for name, value in headers]
