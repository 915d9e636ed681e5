"""A processor's context without an engine around it: records what the processor does, for a test to check.

Takes a processor, records what it forwards, schedules and requests. The test sets times and metadata. Stores are the
engine's own, in a hidden `TopologyTestDriver`. (Timers are recorded like schedules, in `timers.py`.) Records are not
processed further; to test a topology, use the driver itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple

from stoatflow.durations import Duration, Timestamp, duration_ms, timestamp_ms
from stoatflow.metrics import Metrics
from stoatflow.plan.functions import check_callback
from stoatflow.punctuation import PunctuationType
from stoatflow.record import FixedKeyRecord, Record, RecordMetadata
from stoatflow.stores import StoreBuilder
from stoatflow.testing.mock_stores import MockStores
from stoatflow.testing.timers import MockTimers
from stoatflow.timers import TimeDomain, Timer


class CapturedForward(NamedTuple):
    """A forwarded record, and the child that it was forwarded to; `None`: to all.

    >>> context = MockProcessorContext()
    >>> context.forward(sf.Record("ann", 30, 1000), child="large")
    >>> caught = context.forwarded()[0]
    >>> caught.record.value, caught.child
    (30, 'large')
    """

    record: Any
    child: str | None = None


class CapturedPunctuator:
    """A captured schedule: `punctuate(time)` calls it.

    >>> context = MockProcessorContext()
    >>> _ = context.schedule("1m", sf.PunctuationType.STREAM_TIME, print)
    >>> punctuator = context.scheduled_punctuators[0]
    >>> punctuator.interval_ms, punctuator.cancelled
    (60000, False)
    """

    def __init__(self, interval_ms: int, type: PunctuationType, callback: Callable[[int], object]) -> None:  # noqa: A002
        """Created by `MockProcessorContext.schedule`."""
        self.interval_ms = interval_ms
        self.type = type
        self.callback = callback
        self.start_ms: int | None = None
        self.cancelled: bool = False

    def punctuate(self, timestamp: Timestamp) -> None:
        """Call it as if this time had come, even after `cancel()`.

        >>> context = MockProcessorContext()
        >>> context.schedule("1m", sf.PunctuationType.STREAM_TIME, print).punctuate(60_000)
        60000
        """
        self.callback(timestamp_ms(timestamp))

    def cancel(self) -> None:
        """End the schedule.

        >>> context = MockProcessorContext()
        >>> punctuator = context.schedule("1m", sf.PunctuationType.STREAM_TIME, print)
        >>> punctuator.cancel()
        >>> punctuator.cancelled
        True
        """
        self.cancelled = True


class MockProcessorContext:
    """The context of a processor, a fixed-key processor or a transformer in a unit test.

    `stores` are created by `Stores`. With stores, use it as a context manager, or call `close()`.

    >>> class Double(sf.ContextualProcessor[str, int, str, int]):
    ...     def process(self, record):
    ...         self.context.forward(record.replace(value=record.value * 2))
    >>> context = MockProcessorContext()
    >>> context.init(Double())
    >>> context.process(sf.Record("ann", 30, 1000))
    >>> context.forwarded()[0].record.value
    60
    """

    def __init__(self, *stores: StoreBuilder[Any, Any], application_id: str = "test", lane: int = 0) -> None:
        """Start with nothing forwarded; stream time is -1, system time 0."""
        self.application_id = application_id
        self.metrics: Metrics = Metrics()
        self.lane = lane
        self._forwarded: list[CapturedForward] = []
        self._punctuators: list[CapturedPunctuator] = []
        self._committed = False
        self._metadata: RecordMetadata | None = None
        self._stream_time = -1
        self._watermark = -1
        self._advanced: list[int] = []
        self._system_time = 0
        self._stores = MockStores()
        self._locked = False
        self._timers = MockTimers()
        self._processor: Any = None
        for store in stores:
            self.add_state_store(store)

    # Used by processors ------------------------------------------------------------------------

    def forward(self, record: Record[Any, Any] | FixedKeyRecord[Any, Any], child: str | None = None) -> None:
        """Record a forwarded record.

        >>> context = MockProcessorContext()
        >>> context.forward(sf.Record("ann", 30, 1000))
        >>> context.forwarded()[0].record.value
        30
        """
        if not isinstance(record, Record | FixedKeyRecord):
            raise TypeError(
                f"forward() takes a Record, not {type(record).__qualname__}. Next: give it record.replace(...) or "
                "Record(key, value, timestamp)"
            )
        if child is not None and not isinstance(child, str):
            raise TypeError(f"child= is the name of a child, not {child!r}")
        self._forwarded.append(CapturedForward(record, child))

    def state_store(self, name: str) -> Any:
        """Return a store that was added.

        >>> with MockProcessorContext(sf.Stores.in_memory_key_value("totals", key=str, value=int)) as context:
        ...     totals = context.state_store("totals")
        ...     totals.put("ann", 30)
        ...     print(totals.get("ann"))
        30
        """
        return self._timers.store(name) or self._stores.store(name, self)

    def schedule(
        self,
        interval: Duration,
        type: PunctuationType,  # noqa: A002  # the name in Kafka Streams
        callback: Callable[[int], object],
        *,
        start: Timestamp | None = None,
    ) -> CapturedPunctuator:
        """Record a schedule.

        >>> context = MockProcessorContext()
        >>> punctuator = context.schedule("1m", sf.PunctuationType.STREAM_TIME, print)
        >>> punctuator.interval_ms
        60000
        """
        if not isinstance(type, PunctuationType):
            raise TypeError(f"schedule() needs a PunctuationType, not {type!r}")
        check_callback(callback)
        interval_ms = duration_ms(interval)
        if interval_ms < 1:
            raise ValueError(f"the interval of a schedule must be at least 1 ms, not {interval!r}")
        punctuator = CapturedPunctuator(interval_ms, type, callback)
        punctuator.start_ms = None if start is None else timestamp_ms(start)
        self._punctuators.append(punctuator)
        return punctuator

    @contextmanager
    def locks(self, *what: str | tuple[Any, Any], timeout: Duration | None = None) -> Iterator[None]:
        """Lock nothing, as no other lane exists; refuse what the engine refuses.

        >>> context = MockProcessorContext()
        >>> with context.locks("prices", ("totals", "ann"), timeout="1s"):
        ...     print("locked")
        locked
        """
        if timeout is not None:
            duration_ms(timeout)
        for one in what:
            if not isinstance(one, str) and not (isinstance(one, tuple) and len(one) == 2):
                raise TypeError(f"locks() takes names and pairs (store, key), not {one!r}")
        if not what:
            raise TypeError("locks() needs at least one name or pair. Next: write locks((store, key), ...)")
        if self._locked:
            raise RuntimeError("locks were asked for while others are held. Next: name all of them in one locks(...)")
        self._locked = True
        try:
            yield
        finally:
            self._locked = False

    def commit(self) -> None:
        """Note that a commit was requested.

        >>> context = MockProcessorContext()
        >>> context.commit()
        >>> context.committed
        True
        """
        self._committed = True

    def advance_watermark(self, timestamp: Timestamp) -> None:
        """Record the call; `watermark_ms` stays what the test has set.

        >>> context = MockProcessorContext()
        >>> context.advance_watermark(5000)
        >>> context.advanced_watermarks, context.watermark_ms
        ([5000], -1)
        """
        self._advanced.append(timestamp_ms(timestamp))

    @property
    def watermark_ms(self) -> int:
        """The value that the test has set.

        >>> context = MockProcessorContext()
        >>> context.set_watermark_ms(5000)
        >>> context.watermark_ms
        5000
        """
        return self._watermark

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """The value that the test has set.

        >>> context = MockProcessorContext()
        >>> context.set_record_metadata("orders", partition=0, offset=7)
        >>> context.record_metadata.offset
        7
        """
        return self._metadata

    @property
    def stream_time_ms(self) -> int:
        """The value that the test has set.

        >>> context = MockProcessorContext()
        >>> context.set_current_stream_time_ms(5000)
        >>> context.stream_time_ms
        5000
        """
        return self._stream_time

    @property
    def system_time_ms(self) -> int:
        """The value that the test has set.

        >>> context = MockProcessorContext()
        >>> context.set_current_system_time_ms(5000)
        >>> context.system_time_ms
        5000
        """
        return self._system_time

    # Used by tests -----------------------------------------------------------------------------

    def init(self, processor: Any) -> None:
        """Call the processor's `init` with this context.

        >>> class Double(sf.ContextualProcessor[str, int, str, int]):
        ...     def process(self, record):
        ...         self.context.forward(record.replace(value=record.value * 2))
        >>> context, processor = MockProcessorContext(), Double()
        >>> context.init(processor)
        >>> processor.context is context
        True
        """
        self._processor = processor
        processor.init(self)

    def process(self, record: Record[Any, Any] | FixedKeyRecord[Any, Any]) -> None:
        """Call `process` of the processor passed to `init`; its timers get the record's key.

        >>> class Double(sf.ContextualProcessor[str, int, str, int]):
        ...     def process(self, record):
        ...         self.context.forward(record.replace(value=record.value * 2))
        >>> context = MockProcessorContext()
        >>> context.init(Double())
        >>> context.process(sf.Record("ann", 30, 1000))
        >>> context.forwarded()[0].record.value
        60
        """
        with self._timers.at_hand(record.key):
            self._its("process")(record)

    @property
    def timers(self) -> list[Timer[Any]]:
        """All registered timers, in the order in which they will fire.

        >>> context = MockProcessorContext(sf.Stores.timers("reminders", key=str))
        >>> context.state_store("reminders").register(5000, key="ann")
        >>> [(timer.key, timer.at) for timer in context.timers]
        [('ann', 5000)]
        """
        return self._timers.all()

    def fire_timers(self, until: Timestamp, *, domain: TimeDomain = "event") -> list[Timer[Any]]:
        """Call `on_timer` for timers that are due at `until`, in order; return the timers that fired.

        Timers that they register and cancel are treated as in the engine: a later timer of the same key that is due too
        fires now, any other one with the next call.

        >>> class Reminder(sf.ContextualProcessor[str, str, str, str]):
        ...     def process(self, record):
        ...         self.context.state_store("reminders").register(record.timestamp + 1000)
        ...     def on_timer(self, timer):
        ...         print("remind", timer.key)
        >>> context = MockProcessorContext(sf.Stores.timers("reminders", key=str))
        >>> context.init(Reminder())
        >>> context.process(sf.Record("ann", "tea", 0))
        >>> fired = context.fire_timers(until=1000)
        remind ann
        """
        return self._timers.fire(self._its("on_timer"), timestamp_ms(until), domain)

    def _its(self, method: str) -> Callable[[Any], object]:
        if self._processor is None:
            raise RuntimeError("the context doesn't know a processor. Next: call context.init(processor) first")
        found: Callable[[Any], object] = getattr(self._processor, method)
        return found

    def forwarded(self, child: str | None = None) -> list[CapturedForward]:
        """Return the forwarded records: all, or those that a child of this name would get.

        >>> context = MockProcessorContext()
        >>> context.forward(sf.Record("ann", 30, 1000), child="large")
        >>> context.forward(sf.Record("bob", 20, 1000), child="small")
        >>> [each.record.key for each in context.forwarded("large")]
        ['ann']
        """
        return [each for each in self._forwarded if child is None or each.child in (None, child)]

    def reset_forwards(self) -> None:
        """Forget what was forwarded.

        >>> context = MockProcessorContext()
        >>> context.forward(sf.Record("ann", 30, 1000))
        >>> context.reset_forwards()
        >>> context.forwarded()
        []
        """
        self._forwarded.clear()

    @property
    def scheduled_punctuators(self) -> list[CapturedPunctuator]:
        """All schedules in order, including cancelled ones.

        >>> context = MockProcessorContext()
        >>> _ = context.schedule("1m", sf.PunctuationType.STREAM_TIME, print)
        >>> [punctuator.interval_ms for punctuator in context.scheduled_punctuators]
        [60000]
        """
        return list(self._punctuators)

    @property
    def committed(self) -> bool:
        """Whether a commit was requested.

        >>> context = MockProcessorContext()
        >>> context.commit()
        >>> context.committed
        True
        """
        return self._committed

    def reset_commit(self) -> None:
        """Forget that a commit was requested.

        >>> context = MockProcessorContext()
        >>> context.commit()
        >>> context.reset_commit()
        >>> context.committed
        False
        """
        self._committed = False

    @property
    def advanced_watermarks(self) -> list[int]:
        """Arguments of the calls of `advance_watermark`.

        >>> context = MockProcessorContext()
        >>> context.advance_watermark(5000)
        >>> context.advanced_watermarks
        [5000]
        """
        return list(self._advanced)

    def set_record_metadata(self, topic: str, partition: int, offset: int) -> None:
        """Set the source of the current record.

        >>> context = MockProcessorContext()
        >>> context.set_record_metadata("orders", partition=0, offset=7)
        >>> context.record_metadata
        RecordMetadata(topic='orders', partition=0, offset=7)
        """
        self._metadata = RecordMetadata(topic, partition, offset)

    def set_current_stream_time_ms(self, time: Timestamp) -> None:
        """Set `stream_time_ms`.

        >>> context = MockProcessorContext()
        >>> context.set_current_stream_time_ms(5000)
        >>> context.stream_time_ms
        5000
        """
        self._stream_time = timestamp_ms(time)

    def set_watermark_ms(self, time: Timestamp) -> None:
        """Set `watermark_ms`.

        >>> context = MockProcessorContext()
        >>> context.set_watermark_ms(5000)
        >>> context.watermark_ms
        5000
        """
        self._watermark = timestamp_ms(time)

    def set_current_system_time_ms(self, time: Timestamp) -> None:
        """Set `system_time_ms`.

        >>> context = MockProcessorContext()
        >>> context.set_current_system_time_ms(5000)
        >>> context.system_time_ms
        5000
        """
        self._system_time = timestamp_ms(time)

    def add_state_store(self, store: StoreBuilder[Any, Any]) -> None:
        """Add a store, before any store is used.

        >>> with MockProcessorContext() as context:
        ...     context.add_state_store(sf.Stores.in_memory_key_value("totals", key=str, value=int))
        ...     context.state_store("totals").put("ann", 30)
        ...     print(context.state_store("totals").get("ann"))
        30
        """
        if isinstance(store, StoreBuilder) and store.kind.type == "timers":
            self._timers.add(store)
        else:
            self._stores.add(store)

    def close(self) -> None:
        """Remove the stores; may be called more than once.

        >>> context = MockProcessorContext(sf.Stores.in_memory_key_value("totals", key=str, value=int))
        >>> totals = context.state_store("totals")
        >>> totals.put("ann", 30)
        >>> print(totals.get("ann"))
        30
        >>> context.close()
        """
        self._stores.close()

    def __enter__(self) -> MockProcessorContext:
        """Return the context."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    get_state_store = state_store
