"""`MockProcessorContext`: a processor without an application, on the engine's own stores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import stoatflow as sf
from stoatflow import FixedKeyRecord, PunctuationType, Record, Stores, ValueAndTimestamp, Window, Windowed
from stoatflow.testing import CapturedForward, MockProcessorContext


class Balance(sf.ContextualProcessor[str, int, str, int]):
    """Adds up; forwards overdrawn balances, and all balances at a punctuation."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.balances = context.state_store("balances")
        self.schedule = context.schedule("1h", PunctuationType.STREAM_TIME, self.report, start=5)

    def process(self, record: Record[str, int]) -> None:
        assert record.key is not None
        balance = self.balances.get(record.key, 0) + (record.value or 0)
        self.balances.put(record.key, balance)
        if balance < 0:
            self.context.forward(record.replace(value=balance), child="overdrawn")
            self.context.commit()

    def report(self, timestamp: int) -> None:
        for account, balance in self.balances.all():
            self.context.forward(Record(account, balance, timestamp))


BALANCES = Stores.in_memory_key_value("balances", key=str, value=int)


def test_a_processor_alone() -> None:
    with MockProcessorContext(BALANCES) as context:
        balance = Balance()
        context.init(balance)
        balance.process(Record("ann", 50, 1))
        assert context.forwarded() == []
        assert not context.committed
        balance.process(Record("bob", -20, 2))
        assert context.forwarded() == [CapturedForward(Record("bob", -20, 2), "overdrawn")]
        assert context.committed
        context.reset_commit()
        assert not context.committed
        context.reset_forwards()
        (punctuator,) = context.scheduled_punctuators
        assert (punctuator.interval_ms, punctuator.type) == (3_600_000, PunctuationType.STREAM_TIME)
        assert punctuator.start_ms == 5
        punctuator.punctuate(7)
        assert [each.record for each in context.forwarded()] == [Record("ann", 50, 7), Record("bob", -20, 7)]
        balance.schedule.cancel()
        assert punctuator.cancelled
        assert dict(context.state_store("balances").all()) == {"ann": 50, "bob": -20}


def test_children() -> None:
    context = MockProcessorContext()
    for child in (None, "one", "two"):
        context.forward(Record(child, 1, 1), child)
    context.forward(FixedKeyRecord("fixed", 1, 1), child="one")
    assert [each.record.key for each in context.forwarded("one")] == [None, "one", "fixed"]
    assert [each.child for each in context.forwarded()] == [None, "one", "two", "one"]


def test_times_and_metadata() -> None:
    context = MockProcessorContext(application_id="me", lane=3)
    assert (context.application_id, context.lane, context.record_metadata) == ("me", 3, None)
    assert (context.stream_time_ms, context.system_time_ms) == (-1, 0)
    context.set_record_metadata("in", 1, 2)
    context.set_current_stream_time_ms(10)
    context.set_current_system_time_ms(20)
    assert context.record_metadata == sf.RecordMetadata("in", 1, 2)
    assert (context.stream_time_ms, context.system_time_ms) == (10, 20)


def test_the_mock_has_the_whole_context_api() -> None:
    public = {name for name in dir(sf.ProcessorContext) if not name.startswith("_")}
    assert {name for name in public if not hasattr(MockProcessorContext(), name)} == set()


@pytest.fixture
def context() -> Iterator[MockProcessorContext]:
    made = MockProcessorContext(
        Stores.key_value("kv", key=str, value=sf.Serdes.json(decode="dict")),
        Stores.timestamped_key_value("timed", key=str, value=int),
        Stores.window("windows", "1h", "10ms", key=str, value=int),
        Stores.session("sessions", "1h", key=str, value=int),
        Stores.versioned("versions", "1h", key=str, value=int, logging=False),
    )
    with made:
        yield made


def test_every_kind_of_store(context: MockProcessorContext) -> None:
    kv = context.state_store("kv")
    kv["a"] = {"n": [1]}
    kv.put_all({"b": {"n": [2]}, "c": {}})
    # The caller may change what it reads: the store is not affected.
    kv["a"]["n"].append(9)
    assert kv["a"] == {"n": [1]}
    del kv["c"]
    assert ("a" in kv, "c" in kv, list(kv), kv.get("z", 0), kv.name) == (True, False, ["a", "b"], 0, "kv")
    assert list(kv.range("b", reverse=True)) == [("b", {"n": [2]})]
    timed = context.state_store("timed")
    timed.put("a", ValueAndTimestamp(1, 5))
    assert timed.get("a") == ValueAndTimestamp(1, 5)
    windows = context.state_store("windows")
    windows.put("a", 1, 10)
    windows.put("a", 2, 20)
    assert list(windows.fetch("a", frm=0, to=100)) == [(10, 1), (20, 2)]
    sessions = context.state_store("sessions")
    sessions.put(Windowed("a", Window(1, 5)), 7)
    assert sessions.fetch_session("a", 1, 5) == 7
    versions = context.state_store("versions")
    versions.put("a", 1, 10)
    versions.put("a", 2, 20)
    assert versions.get("a", 15).value == 1
    assert context.get_state_store("versions").get("a").value == 2


def test_retention_is_that_of_the_engine() -> None:
    with MockProcessorContext(Stores.in_memory_window("w", "10ms", "5ms", key=str, value=int)) as context:
        store = context.state_store("w")
        store.put("a", 1, 0)
        store.put("a", 2, 100)
        assert list(store.all()) == [(Windowed("a", Window(100, 105)), 2)]


def test_errors_of_stores_are_raised_in_the_test(context: MockProcessorContext) -> None:
    kv = context.state_store("kv")
    with pytest.raises(KeyError):
        kv["z"]
    with pytest.raises(TypeError):
        context.state_store("timed").put("a", 5)
    with pytest.raises(AttributeError, match="KeyValueStore 'kv' has no 'fetch'"):
        kv.fetch("a")
    kv["a"] = {}
    assert kv["a"] == {}


@pytest.mark.parametrize(
    ("use", "kind", "words"),
    [
        (lambda c: c.forward("x"), TypeError, "takes a Record, not str"),
        (lambda c: c.forward(Record("a", 1, 1), 5), TypeError, "name of a child"),
        (lambda c: c.schedule("1s", "wall", print), TypeError, "PunctuationType"),
        (lambda c: c.schedule("0ms", PunctuationType.STREAM_TIME, print), ValueError, "at least 1 ms"),
        (lambda c: c.schedule("1s", PunctuationType.STREAM_TIME, 5), TypeError, "(timestamp)"),
        (lambda c: c.schedule("1s", PunctuationType.STREAM_TIME, later), TypeError, "is async"),
        (lambda c: c.state_store("s"), LookupError, "there are: balances"),
        (lambda c: c.add_state_store("s"), TypeError, "comes from Stores"),
        (lambda c: (c.state_store("balances").get("a"), c.add_state_store(BALANCES)), RuntimeError, "too late"),
        (lambda c: (c.close(), c.close(), c.state_store("balances").get("a")), RuntimeError, "is closed"),
    ],
)
def test_invalid_arguments_are_refused(use: Any, kind: type[Exception], words: str) -> None:
    with MockProcessorContext(BALANCES) as context, pytest.raises(kind) as caught:
        use(context)
    assert words in str(caught.value)


async def later(timestamp: int) -> None:
    """Never runs."""


class Alarm(sf.ContextualProcessor[str, int, str, str]):
    """A record's value is the delay of an alarm; an alarm registers the next one."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.alarms = context.state_store("alarms")
        self.seen = context.state_store("seen")

    def process(self, record: Record[str, int]) -> None:
        assert record.value is not None
        self.alarms.register(record.timestamp + record.value)
        self.alarms.register(7, domain="processing")
        self.seen.put(record.key, record.value)

    def on_timer(self, timer: sf.Timer[str]) -> None:
        self.context.forward(Record(timer.key, f"{self.seen[timer.key]}", timer.at))
        self.alarms.cancel(7, domain="processing")
        self.alarms.register(timer.at + 10)
        self.alarms.register(timer.at, key="other")


def test_timers() -> None:
    stores: list[sf.StoreBuilder[Any, Any]] = [
        Stores.timers("alarms", key=str),
        Stores.key_value("seen", key=str, value=int),
    ]
    with MockProcessorContext(*stores) as context:
        with pytest.raises(RuntimeError, match=r"call context\.init"):
            context.fire_timers(5)
        alarm = Alarm()
        context.init(alarm)
        with pytest.raises(RuntimeError, match=r"register\(\) needs a key here"):
            alarm.process(Record("b", 5, 100))
        context.process(Record("b", 5, 100))
        context.process(Record("a", 5, 100))
        timer = sf.Timer[str]
        both = [timer("alarms", "a", 105, "event"), timer("alarms", "b", 105, "event")]
        assert context.timers == [
            *both, timer("alarms", "a", 7, "processing"), timer("alarms", "b", 7, "processing")
        ]  # fmt: skip
        assert context.state_store("alarms").pending("a") == [both[0], timer("alarms", "a", 7, "processing")]
        assert context.fire_timers(104) == []
        # Timers that they register and that are due fire in order too; for other keys after the current ones.
        fired = context.fire_timers(120)
        assert [(each.key, each.at) for each in fired] == [("a", 105), ("b", 105), ("a", 115), ("b", 115)]
        assert context.forwarded()[0] == CapturedForward(Record("a", "5", 105))
        assert {(each.key, each.at) for each in context.timers} == {
            ("a", 125), ("b", 125), ("other", 105), ("other", 115)
        }  # fmt: skip
        assert context.fire_timers(1_000, domain="processing") == []
        with pytest.raises(ValueError, match="domain="):
            context.state_store("alarms").register(1, key="a", domain="stream")
        with pytest.raises(ValueError, match="null key"):
            context.process(Record(None, 5, 100))


def test_the_mock_timer_store_has_the_whole_api() -> None:
    public = {name for name in dir(sf.TimerStore) if not name.startswith("_")}
    with MockProcessorContext(Stores.timers("alarms", key=str)) as context:
        assert {name for name in public if not hasattr(context.state_store("alarms"), name)} == set()
