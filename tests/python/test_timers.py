"""Timers of processors, through the driver: they fire once, in time order, in any number of lanes, despite crashes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest

import stoatflow as sf
from stoatflow import FixedKeyRecord, Record, Stores, Timer
from stoatflow.testing import TopologyTestDriver

ALARMS = Stores.timers("alarms", key=str)
LANES = pytest.mark.parametrize("lanes", [1, 5])


class Remind(sf.ContextualProcessor[str, int, str, str]):
    """The value of a record is the delay of a reminder; a negative one cancels."""

    domain: sf.TimeDomain = "event"

    def init(self, context: Any) -> None:
        super().init(context)
        self.alarms: sf.TimerStore[str] = context.state_store("alarms")

    def process(self, record: Record[str, int]) -> None:
        assert record.value is not None
        now = record.timestamp if self.domain == "event" else self.context.system_time_ms
        if record.value >= 0:
            self.alarms.register(now + record.value, domain=self.domain)
        else:
            self.alarms.cancel(-record.value, domain=self.domain)

    def on_timer(self, timer: Timer[str]) -> None:
        assert self.context.record_metadata is None
        self.context.forward(Record(timer.key, f"{timer.domain} {timer.at}", timer.at))


class RemindByClock(Remind):
    """The same by the clock."""

    domain = "processing"


def topology(processor: Callable[[], Any], *, store: Any = ALARMS) -> sf.Topology:
    builder = sf.StreamsBuilder()
    builder.add_state_store(store)
    builder.stream("in", key=str, value=int).process(processor, stores=[store.name]).to("out", key=str, value=str)
    return builder.build()


def read(driver: TopologyTestDriver) -> list[tuple[str, str, int]]:
    return [(r.key or "", r.value or "", r.timestamp) for r in driver.output("out", str, str).read_all()]


@LANES
def test_event_timers_fire_once_when_time_has_come(lanes: int) -> None:
    with TopologyTestDriver(topology(Remind), lanes=lanes) as driver:
        source = driver.input("in", str, int)
        source.pipe("a", 100, timestamp=1_000)
        source.pipe("a", 100, timestamp=1_000)
        source.pipe("b", 50, timestamp=1_040)
        assert read(driver) == []
        assert driver.store("alarms").all() == [
            Timer("alarms", "b", 1_090, "event"),
            Timer("alarms", "a", 1_100, "event"),
        ]
        source.pipe("c", 9_999, timestamp=1_089)
        driver.advance("1h")
        assert read(driver) == []
        source.pipe("c", 9_999, timestamp=1_090)
        assert read(driver) == [("b", "event 1090", 1_090)]
        source.pipe("c", 9_999, timestamp=5_000)
        source.pipe("c", 9_999, timestamp=6_000)
        assert read(driver) == [("a", "event 1100", 1_100)]
        assert {timer.key for timer in driver.store("alarms")} == {"c"}


@LANES
def test_an_overdue_timer_fires_in_its_own_commit(lanes: int) -> None:
    with TopologyTestDriver(topology(Remind), lanes=lanes) as driver:
        source = driver.input("in", str, int)
        source.pipe("a", 0, timestamp=1_000)
        assert read(driver) == [("a", "event 1000", 1_000)]
        source.pipe("b", 1, timestamp=500)
        assert read(driver) == [("b", "event 501", 501)]
        assert len(driver.store("alarms")) == 0


@LANES
def test_timers_fire_in_the_order_of_time(lanes: int) -> None:
    keys = [f"k{n}" for n in range(30)]
    with TopologyTestDriver(topology(Remind), lanes=lanes) as driver:
        source = driver.input("in", str, int)
        with driver.epoch():
            for n, key in enumerate(keys):
                for delay in (7, 3, 5):
                    source.pipe(key, delay * 10 + n % 4, timestamp=1_000)
        source.pipe("end", 0, timestamp=2_000)
        fired = [(key, at) for key, _, at in read(driver)]
        of_key = {key: [at for k, at in fired if k == key] for key in keys}
        assert all(len(times) == 3 and times == sorted(times) for times in of_key.values())
        if lanes == 1:
            # Those of the same time are in key order.
            assert fired == sorted(fired, key=lambda each: (each[1], each[0]))


def read_where(driver: TopologyTestDriver) -> list[tuple[str, int, int]]:
    return [(key, int(lane), at) for key, lane, at in read(driver)]


def test_a_timer_fires_in_the_lane_of_its_key() -> None:
    class Where(Remind):
        """Reports the lane in which it was called."""

        def process(self, record: Record[str, int]) -> None:
            super().process(record)
            self.context.forward(Record(record.key, f"{self.context.lane}", 0))

        def on_timer(self, timer: Timer[str]) -> None:
            self.context.forward(Record(timer.key, f"{self.context.lane}", 1))

    keys = [f"k{n}" for n in range(30)]
    with TopologyTestDriver(topology(Where), lanes=5) as driver:
        source = driver.input("in", str, int)
        for key in keys:
            source.pipe(key, 10, timestamp=100)
        source.pipe("end", 0, timestamp=110)
        found = read_where(driver)
        registered = {key: lane for key, lane, at in found if at == 0}
        fired = {key: lane for key, lane, at in found if at == 1}
        assert fired == registered
        assert len(set(fired.values())) == 5


@LANES
def test_a_cancelled_timer_does_not_fire(lanes: int) -> None:
    with TopologyTestDriver(topology(Remind), lanes=lanes) as driver:
        source = driver.input("in", str, int)
        source.pipe("a", 100, timestamp=1_000)
        source.pipe("a", 200, timestamp=1_000)
        source.pipe("a", -1_100, timestamp=1_000)
        source.pipe("b", -77, timestamp=1_000)
        with driver.epoch():
            source.pipe("a", 5, timestamp=1_000)
            source.pipe("a", -1_005, timestamp=1_000)
            source.pipe("b", 0, timestamp=900)
            source.pipe("b", -900, timestamp=900)
        source.pipe("z", 9_999, timestamp=3_000)
        assert read(driver) == [("a", "event 1200", 1_200)]


@LANES
def test_processing_timers_follow_the_clock(lanes: int) -> None:
    with TopologyTestDriver(topology(RemindByClock), lanes=lanes, start=10_000) as driver:
        source = driver.input("in", str, int)
        source.pipe("a", 500, timestamp=1)
        source.pipe("b", 1_500, timestamp=99_999_999)
        driver.advance(499)
        assert read(driver) == []
        driver.advance(1)
        assert read(driver) == [("a", "processing 10500", 10_500)]
        driver.crash()
        driver.restart(lanes=6 - lanes)
        assert read(driver) == []
        driver.advance("1h")
        assert read(driver) == [("b", "processing 11500", 11_500)]
        driver.advance("1h")
        assert read(driver) == []
        source.pipe("c", 0, timestamp=5)
        assert read(driver) == [("c", f"processing {driver.now}", driver.now)]


@LANES
def test_crashes_neither_lose_timers_nor_fire_them_twice(lanes: int) -> None:
    with TopologyTestDriver(topology(Remind), lanes=lanes) as driver:
        source = driver.input("in", str, int)
        keys = [f"k{n}" for n in range(20)]
        for n, key in enumerate(keys):
            source.pipe(key, 100 + n, timestamp=1_000)
        driver.crash()
        driver.restart(lanes=6 - lanes)
        assert len(driver.store("alarms")) == 20
        with driver.epoch():
            source.pipe("z", 9_999, timestamp=1_109)
            driver.crash()
        assert read(driver) == []
        driver.restart(lanes=lanes)
        assert sorted(read(driver)) == sorted((key, f"event {1_100 + n}", 1_100 + n) for n, key in enumerate(keys[:10]))
        driver.crash()
        driver.restart(lanes=3)
        source.pipe("z", 9_999, timestamp=1_110)
        driver.crash()
        driver.restart(lanes=lanes)
        source.pipe("z", 9_999, timestamp=2_000)
        assert sorted(key for key, _, _ in read(driver)) == keys[10:]
        assert {timer.key for timer in driver.store("alarms")} == {"z"}


@LANES
def test_timers_that_fired_in_an_epoch_that_was_lost_fire_again(lanes: int) -> None:
    failures = [True]

    class FailsOnce(Remind):
        """The fifth timer fails, once: timers that fired before it belong to the same epoch."""

        def on_timer(self, timer: Timer[str]) -> None:
            super().on_timer(timer)
            if timer.key == "k5" and failures:
                failures.pop()
                raise ValueError

    with TopologyTestDriver(topology(FailsOnce), lanes=lanes) as driver:
        source = driver.input("in", str, int)
        keys = [f"k{n}" for n in range(10)]
        for key in keys:
            source.pipe(key, 10, timestamp=1)
        with pytest.raises(sf.ProcessingError):
            source.pipe("z", 9_999, timestamp=11)
        assert read(driver) == []
        driver.restart(lanes=6 - lanes)
        assert sorted(key for key, _, _ in read(driver)) == keys
        driver.crash()
        driver.restart(lanes=lanes)
        source.pipe("z", 9_999, timestamp=100)
        assert read(driver) == []


class Chain(sf.ContextualProcessor[str, int, str, str]):
    """Each timer registers the next one, up to 100; a record starts the chain."""

    step = 10

    def init(self, context: Any) -> None:
        super().init(context)
        self.alarms = context.state_store("alarms")

    def process(self, record: Record[str, int]) -> None:
        if record.value:
            self.alarms.register(record.value)

    def on_timer(self, timer: Timer[str]) -> None:
        self.context.forward(Record(timer.key, f"{self.context.stream_time_ms}", timer.at))
        if timer.at + self.step <= 100:
            self.alarms.register(timer.at + self.step)


@LANES
def test_a_timer_registers_the_next_one(lanes: int) -> None:
    with TopologyTestDriver(topology(Chain), lanes=lanes) as driver:
        source = driver.input("in", str, int)
        source.pipe("a", 10, timestamp=1)
        source.pipe("b", 15, timestamp=15)
        assert sorted(read(driver)) == [("a", "15", 10), ("b", "15", 15)]
        # Time jumps: all of them fire in one commit, each key's in order.
        source.pipe("z", 0, timestamp=95)
        fired = read(driver)
        assert sorted(at for _, _, at in fired) == [*range(20, 96, 5)]
        if lanes == 1:
            assert [at for _, _, at in fired] == [*range(20, 96, 5)]
        source.pipe("z", 0, timestamp=200)
        assert read(driver) == [("a", "200", 100)]


class Again(Chain):
    """Registers itself for the same time."""

    step = 0


@LANES
def test_a_timer_that_registers_itself_fires_once_a_commit(lanes: int) -> None:
    with TopologyTestDriver(topology(Again), lanes=lanes) as driver:
        source = driver.input("in", str, int)
        source.pipe("a", 10, timestamp=20)
        assert read(driver) == [("a", "20", 10)]
        source.pipe("z", 0, timestamp=20)
        assert read(driver) == [("a", "20", 10)]
        driver.crash()
        driver.restart(lanes=2)
        assert read(driver) == [("a", "20", 10)]


class Others(sf.ContextualProcessor[str, str, str, str]):
    """A record's value names another key, which gets a timer that is already due and passes it on once."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.alarms = context.state_store("alarms")

    def process(self, record: Record[str, str]) -> None:
        self.alarms.register(record.timestamp, key=record.value)

    def on_timer(self, timer: Timer[str]) -> None:
        self.context.forward(Record(timer.key, "", timer.at))
        if len(timer.key) < 8:
            self.alarms.register(timer.at, key=timer.key + "x")


@LANES
def test_timers_of_other_keys(lanes: int) -> None:
    builder = sf.StreamsBuilder()
    builder.add_state_store(ALARMS)
    builder.stream("in", key=str, value=str).process(Others, stores=["alarms"]).to("out", key=str, value=str)
    with TopologyTestDriver(builder.build(), lanes=lanes) as driver:
        driver.input("in", str, str).pipe("a", "b", timestamp=5)
        # The last ones need further commits, without a record.
        assert [key for key, _, _ in read(driver)] == ["b" + "x" * n for n in range(8)]
        assert len(driver.store("alarms")) == 0


@LANES
def test_more_than_one_commit_fires(lanes: int) -> None:
    class Many(Remind):
        """Registers many timers in one call."""

        def process(self, record: Record[str, int]) -> None:
            assert record.value is not None
            for n in range(record.value):
                self.alarms.register(1_000 + n // 2, key=f"{n}")

    with TopologyTestDriver(topology(Many), lanes=lanes) as driver:
        source = driver.input("in", str, int)
        source.pipe("a", 40_000, timestamp=1)
        assert len(driver.store("alarms")) == 40_000
        source.pipe("z", 0, timestamp=50_000)
        fired = read(driver)
        assert len(fired) == len({key for key, _, _ in fired}) == 40_000
        assert len(driver.store("alarms")) == 0
        if lanes == 1:
            assert [at for _, _, at in fired] == sorted(at for _, _, at in fired)


class Both(sf.ContextualFixedKeyProcessor[str, int, str]):
    """A fixed key, two stores, both kinds of timers; its state is in a store."""

    @classmethod
    def stores(cls) -> list[Any]:
        return [
            Stores.in_memory_timers("one", key=str),
            Stores.timers("two", key=str),
            Stores.key_value("seen", key=str, value=int),
        ]

    def init(self, context: Any) -> None:
        super().init(context)
        self.one, self.two = context.state_store("one"), context.state_store("two")
        self.seen = context.state_store("seen")

    def process(self, record: FixedKeyRecord[str, int]) -> None:
        self.seen.put(record.key, record.value)
        self.two.register(20)
        self.one.register(datetime.fromtimestamp(0.02, timezone.utc))
        self.one.register(10)
        self.two.register(5, domain="processing")
        assert self.one.pending() == [Timer("one", record.key, 10, "event"), Timer("one", record.key, 20, "event")]
        assert self.two.pending("nobody") == []

    def on_timer(self, timer: Timer[str]) -> None:
        value = f"{timer.store} {timer.domain} {timer.at} {self.seen[timer.key]}"
        self.context.forward(FixedKeyRecord(timer.key, value, timer.at))


@LANES
def test_two_stores_and_a_fixed_key(lanes: int) -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=int).process_values(Both).to("out", key=str, value=str)
    with TopologyTestDriver(builder.build(), lanes=lanes) as driver:
        driver.input("in", str, int).pipe("a", 7, timestamp=1)
        assert driver.store("one").pending("a") == [Timer("one", "a", 10, "event"), Timer("one", "a", 20, "event")]
        assert [timer.at for timer in driver.store("two").all("processing")] == [5]
        driver.crash()
        driver.restart(lanes=lanes)
        driver.advance(5)
        driver.input("in", str, int).pipe("a", 8, timestamp=30)
        values = [value for _, value, _ in read(driver)]
        assert values[:4] == ["two processing 5 7", "one event 10 8", "one event 20 8", "two event 20 8"]
        assert values[4:] == ["two processing 5 8"]


def test_a_fixed_key_stays() -> None:
    class Changes(Both):
        def on_timer(self, timer: Timer[str]) -> None:
            self.context.forward(FixedKeyRecord("other", "x", timer.at))

    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=int).process_values(Changes).to("out", key=str, value=str)
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(sf.ProcessingError, match="keeps keys"):
        driver.input("in", str, int).pipe("a", 7, timestamp=30)


class Raises(Remind):
    """Its timers fail, except the last one."""

    def on_timer(self, timer: Timer[str]) -> None:
        super().on_timer(timer)
        if timer.key != "fine":
            raise ValueError(timer.key)


def test_an_error_names_processor_and_node() -> None:
    with TopologyTestDriver(topology(Raises)) as driver:
        source = driver.input("in", str, int)
        source.pipe("a", 10, timestamp=1)
        with pytest.raises(sf.ProcessingError, match=r"on_timer\(\) raised ValueError: a") as raised:
            source.pipe("z", 9_999, timestamp=11)
        assert "Raises" in str(raised.value.coordinates["function"])
        assert "PROCESSOR" in str(raised.value.coordinates["node"])
        # Nothing was committed, so it fires again.
        with pytest.raises(sf.ProcessingError, match="ValueError: a"):
            driver.restart()


@LANES
def test_a_handler_drops_a_failed_timer(lanes: int) -> None:
    made = topology(Raises)
    with TopologyTestDriver(made, lanes=lanes, on_processing_error=sf.log_and_continue()) as driver:
        source = driver.input("in", str, int)
        source.pipe("a", 10, timestamp=1)
        source.pipe("fine", 10, timestamp=1)
        source.pipe("z", 9_999, timestamp=11)
        # Records that it had forwarded before it failed are rolled back.
        assert read(driver) == [("fine", "event 11", 11)]
        assert {timer.key for timer in driver.store("alarms")} == {"z"}


@LANES
def test_a_dead_letter_of_a_timer_has_its_key_and_time(lanes: int) -> None:
    with TopologyTestDriver(topology(Raises), lanes=lanes, on_processing_error=sf.DLQ("dead")) as driver:
        source = driver.input("in", str, int)
        source.pipe("a", 10, timestamp=1)
        source.pipe("z", 9_999, timestamp=11)
        (letter,) = driver.output("dead").read_all()
        headers = dict(letter.headers)
        assert (letter.key, letter.value, letter.timestamp) == (None, None, 11)
        assert headers["__stoatflow.errors.key"] == b"a"
        assert headers["__stoatflow.errors.exception"] == b"ValueError"
        assert "__stoatflow.errors.offset" not in headers


class InInit(Remind):
    """Every lane registers the same timer."""

    def init(self, context: Any) -> None:
        super().init(context)
        with pytest.raises(sf.ProcessingError, match=r"register\(\) needs a key here"):
            self.alarms.register(5)
        self.alarms.register(5, key="init")
        context.schedule("10ms", sf.PunctuationType.WALL_CLOCK_TIME, self.tick)

    def tick(self, time: int) -> None:
        with pytest.raises(sf.ProcessingError, match=r"pending\(\) needs a key here"):
            self.alarms.pending()
        self.alarms.register(time + 1, key="tick", domain="processing")


@LANES
def test_outside_of_records_a_key_is_needed(lanes: int) -> None:
    with TopologyTestDriver(topology(InInit), lanes=lanes) as driver:
        driver.input("in", str, int).pipe("z", 9_999, timestamp=7)
        assert read(driver) == [("init", "event 5", 5)]
        driver.advance(10)
        assert read(driver) == []
        driver.advance(1)
        assert read(driver) == [("tick", "processing 11", 11)]


def test_wrong_arguments() -> None:
    class Wrong(Remind):
        def process(self, record: Record[str, int]) -> None:
            with pytest.raises(ValueError, match='domain= is "event"'):
                self.alarms.register(1, domain="stream")  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="no timestamp"):
                self.alarms.register("5s")  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="no time zone"):
                self.alarms.cancel(datetime(2020, 1, 1))  # noqa: DTZ001
            with pytest.raises(sf.ProcessingError, match="null keys"):
                self.alarms.register(5)

    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=int).process(with_alarms(Wrong))
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, int).pipe(None, 1, timestamp=1)


def with_alarms(cls: type) -> type:
    """Returns a subclass that declares the store."""
    return sf.with_stores(ALARMS)(type(cls.__name__, (cls,), {}))


class Silent(sf.ContextualProcessor[str, int, str, str]):
    """It has no on_timer."""

    def process(self, record: Record[str, int]) -> None: ...


class Later(Silent):
    """Its on_timer is async and would not run."""

    async def on_timer(self, timer: Timer[str]) -> None: ...


class NoTimer(Silent):
    """Its on_timer takes no argument."""

    def on_timer(self) -> None: ...


def test_a_processor_with_timers_has_an_on_timer() -> None:
    with pytest.raises(sf.TopologyError, match=r"Silent has the timers 'alarms', but no on_timer\(timer\)") as raised:
        topology(Silent)
    assert "test_timers.py" in str(raised.value)
    hand = sf.Topology().add_source("s", "in", key=str).add_processor("p", Silent, "s")
    hand.add_state_store(ALARMS, "p")
    with pytest.raises(sf.TopologyError, match="no on_timer"):
        hand.describe()
    broken: list[tuple[Any, str]] = [(Later, "is async"), (NoTimer, r"takes \(\)")]
    for wrong, why in broken:
        with pytest.raises(sf.TopologyError, match=rf"on_timer.*{why}"):
            sf.StreamsBuilder().stream("in", key=str).process(wrong)


def test_timers_have_one_processor_and_the_keys_of_its_records() -> None:
    builder = sf.StreamsBuilder()
    builder.add_state_store(ALARMS)
    source = builder.stream("in", key=str, value=int)
    source.process(Remind, stores=["alarms"])
    source.process(Remind, stores=["alarms"])
    with pytest.raises(sf.TopologyError, match="timers call one processor"):
        builder.build()
    with pytest.raises(sf.TopologyError, match="keeps the timers 'alarms' by json, but its records come by string"):
        topology(Remind, store=Stores.timers("alarms", key=dict))
    builder = sf.StreamsBuilder()
    with pytest.raises(sf.TopologyError, match="global store keeps keys and values"):
        builder.add_global_store(ALARMS, "in", Remind).build()


@LANES
def test_records_without_a_known_key_serde_go_to_the_lane_of_their_timers(lanes: int) -> None:
    builder = sf.StreamsBuilder()
    rekeyed = builder.stream("in", key=str, value=int).select_key(lambda key, value: key[0])
    rekeyed.process(with_alarms(Remind)).to("out", key=str, value=str)
    with TopologyTestDriver(builder.build(), lanes=lanes) as driver:
        source = driver.input("in", str, int)
        source.pipe("ab", 10, timestamp=1)
        source.pipe("ac", 10, timestamp=1)
        source.pipe("zz", 9_999, timestamp=11)
        assert read(driver) == [("a", "event 11", 11)]


def test_a_wrapper_leaves_timers_alone() -> None:
    seen: list[str] = []

    def wrapper(node: sf.NodeInfo, following: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            seen.append(node.function)
            return following(*arguments)

        return run

    builder = sf.StreamsBuilder(wrapper=wrapper)
    builder.stream("in", key=str, value=int).process(with_alarms(Remind)).to("out", key=str, value=str)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, int).pipe("a", 0, timestamp=1)
        assert read(driver) == [("a", "event 1", 1)]
    assert seen == ["process"]
